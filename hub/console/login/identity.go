package login

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Identity is a user that has logged in.
type Identity struct {
	// Name of the user, as the API server knows it.
	Name string `json:"name"`
	// Groups of the user, as the API server knows them.
	Groups []string `json:"groups,omitempty"`
	// IssuedAt is when the user logged in, in seconds since 1970.
	IssuedAt int64 `json:"iat"`
	// Expires is when the login ends, in seconds since 1970.
	Expires int64 `json:"exp"`
}

// reserved is the prefix of the users and groups of Kubernetes itself.
const reserved = "system:"

// New returns the identity of a user that logs in now. It fails for users and groups of Kubernetes
// itself: as one of those the console would act with the rights of a component.
func New(name string, groups []string, now time.Time, lifetime time.Duration) (Identity, error) {
	if name == "" {
		return Identity{}, errors.New("the user has no name")
	}
	if strings.HasPrefix(name, reserved) {
		return Identity{}, fmt.Errorf("user %q has a name that is reserved for Kubernetes: rename it, or set a prefix for user names", name)
	}
	for _, group := range groups {
		if strings.HasPrefix(group, reserved) {
			return Identity{}, fmt.Errorf("user %q is in group %q, whose name is reserved for Kubernetes: rename it, or set a prefix for groups", name, group)
		}
	}
	groups = slices.Clone(groups)
	slices.Sort(groups)
	return Identity{Name: name, Groups: slices.Compact(groups), IssuedAt: now.Unix(), Expires: now.Add(lifetime).Unix()}, nil
}

// Expired reports whether the login is over.
func (i Identity) Expired(now time.Time) bool { return now.Unix() >= i.Expires }

// End returns when the login ends.
func (i Identity) End() time.Time { return time.Unix(i.Expires, 0) }
