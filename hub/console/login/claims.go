package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Claims define how the claims of an ID token name a user, with the meaning of the API server's flags of the
// same names: a user is then the same here and in kubectl.
type Claims struct {
	// IssuerURL of the identity provider.
	IssuerURL string
	// UsernameClaim is the claim with the user's name.
	UsernameClaim string
	// UsernamePrefix is put before the name. Empty means the issuer and "#", unless the claim is email;
	// "-" means none.
	UsernamePrefix string
	// GroupsClaim is the claim with the user's groups, empty for none.
	GroupsClaim string
	// GroupsPrefix is put before each group.
	GroupsPrefix string
	// RequiredClaims are claims that must be there, with these values.
	RequiredClaims map[string]string
	// GroupsPattern selects the groups that are used, by their names before the prefix. Nil selects all.
	GroupsPattern *regexp.Regexp
}

// emailClaim is the claim that must not be unverified.
const emailClaim = "email"

// identity returns the identity that the claims of an ID token state.
func (c Claims) identity(claims map[string]json.RawMessage, now time.Time, lifetime time.Duration) (Identity, error) {
	for name, want := range c.RequiredClaims {
		var value string
		if err := json.Unmarshal(claims[name], &value); err != nil || value != want {
			return Identity{}, fmt.Errorf("claim %q of your login is not %q, which is required here", name, want)
		}
	}
	name, err := c.username(claims)
	if err != nil {
		return Identity{}, err
	}
	groups, err := c.groups(claims)
	if err != nil {
		return Identity{}, err
	}
	return New(name, groups, now, lifetime)
}

func (c Claims) username(claims map[string]json.RawMessage) (string, error) {
	var name string
	if err := json.Unmarshal(claims[c.UsernameClaim], &name); err != nil || name == "" {
		return "", fmt.Errorf("your login has no claim %q with your name: the identity provider must send it, or --oidc-username-claim name another one", c.UsernameClaim)
	}
	prefix := c.UsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && c.UsernameClaim != emailClaim:
		prefix = c.IssuerURL + "#"
	}
	if c.UsernameClaim != emailClaim {
		return prefix + name, nil
	}
	if raw, ok := claims["email_verified"]; ok {
		var verified bool
		if err := json.Unmarshal(raw, &verified); err != nil || !verified {
			return "", errors.New("your email address is not verified: confirm it with your identity provider")
		}
	}
	return prefix + name, nil
}

// groups accepts a list, or one group as a string.
func (c Claims) groups(claims map[string]json.RawMessage) ([]string, error) {
	raw, ok := claims[c.GroupsClaim]
	if c.GroupsClaim == "" || !ok {
		return nil, nil
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		var one string
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("claim %q of your login is neither a list of groups nor a group: --oidc-groups-claim must name another one", c.GroupsClaim)
		}
		all = []string{one}
	}
	var groups []string
	for _, group := range all {
		if c.GroupsPattern == nil || c.GroupsPattern.MatchString(group) {
			groups = append(groups, c.GroupsPrefix+group)
		}
	}
	return groups, nil
}
