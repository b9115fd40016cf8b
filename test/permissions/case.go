package permissions

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Case has all that is checked for one holder of roles.
type Case struct {
	// Grants are what the roles allow.
	Grants []Grant
	// Own is the holder's namespace, Sessions are the namespaces that may hold sessions.
	Own      string
	Sessions []string
	// Everywhere means that the holder is to work in all namespaces: requests in those of
	// sessions alone do not show that it needs no others.
	Everywhere bool
	// Requests are the requests of the holder.
	Requests map[Request]bool
	// Exceptions are permissions that only other tests need.
	Exceptions []Exception
}

// Exception is a permission that is needed, but not by the tests whose requests are checked.
type Exception struct {
	// Role, Group, Resource and Name are as in a Permission; Verbs lists its verbs.
	Role, Group, Resource, Name string
	Verbs                       []string
	// Because is the reason.
	Because string
	// Chance means that the checked tests need it in some runs only; then its use is no
	// error.
	Chance bool
	// Test is the path of a test that needs it, and Contains a text in that file.
	Test, Contains string
}

// narrowest returns the index of the grant that allows a request in the fewest places, -1 if
// none does.
func (c *Case) narrowest(r Request) int {
	best := -1
	for i := range c.Grants {
		if c.allows(&c.Grants[i], r) && (best < 0 || c.Grants[i].Reach < c.Grants[best].Reach) {
			best = i
		}
	}
	return best
}

func (c *Case) allows(g *Grant, r Request) bool {
	if g.Group != r.Group || g.Resource != r.Resource || g.Verb != r.Verb || g.Name != "" && g.Name != r.Name {
		return false
	}
	switch g.Reach {
	case OwnNamespace:
		return r.Namespace == g.Namespace
	case SessionNamespaces:
		return slices.Contains(c.Sessions, r.Namespace)
	}
	return true
}

// uses reports whether a request, whose narrowest grant is g, shows that g is needed.
func (c *Case) uses(g *Grant, r Request) bool {
	inSessions := r.Namespace != "" && (r.Namespace == c.Own || slices.Contains(c.Sessions, r.Namespace))
	return g.Reach != WholeCluster || c.Everywhere || !inSessions
}

// Denied returns the requests that were denied and that no role allows, sorted. One that a
// role allows was denied while the API server started, before it had read the roles.
func (c *Case) Denied() []string {
	var all []string
	for r := range c.Requests {
		if r.Denied && c.narrowest(r) < 0 {
			all = append(all, r.String())
		}
	}
	slices.Sort(all)
	return all
}

// Unused returns what the roles allow and no request needed, except Exceptions, and what is
// wrong with the exceptions, sorted. root is the directory of the repository.
func (c *Case) Unused(root string) []string {
	used := map[Permission]bool{}
	for r := range c.Requests {
		if i := c.narrowest(r); i >= 0 && !r.Denied && c.uses(&c.Grants[i], r) {
			used[c.Grants[i].Permission] = true
		}
	}
	excused := map[Permission]bool{}
	wrong := map[string]bool{}
	for i := range c.Exceptions {
		e := &c.Exceptions[i]
		if err := e.check(root); err != nil {
			wrong[err.Error()] = true
		}
		for _, verb := range e.Verbs {
			p := Permission{Role: e.Role, Group: e.Group, Resource: e.Resource, Verb: verb, Name: e.Name}
			excused[p] = true
			switch {
			case !slices.ContainsFunc(c.Grants, func(g Grant) bool { return g.Permission == p }):
				wrong[fmt.Sprintf("no role allows what is an exception: %s", p)] = true
			case used[p] && !e.Chance:
				wrong[fmt.Sprintf("is no exception, it was used: %s", p)] = true
			}
		}
	}
	for i := range c.Grants {
		if p := c.Grants[i].Permission; !used[p] && !excused[p] {
			wrong[fmt.Sprintf("allowed, and not needed%s: %s", c.where(&c.Grants[i]), p)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(wrong), cmp.Compare[string])
}

func (c *Case) where(g *Grant) string {
	if g.Reach != WholeCluster || c.Everywhere {
		return ""
	}
	return " outside of the namespaces of sessions"
}

// check returns an error if the exception has no reason, or the test does not exist.
func (e *Exception) check(root string) error {
	if e.Because == "" || e.Contains == "" {
		return fmt.Errorf("an exception without a reason: %s %v %s", e.Role, e.Verbs, e.Resource)
	}
	content, err := os.ReadFile(filepath.Join(root, e.Test))
	if err != nil || !strings.Contains(string(content), e.Contains) {
		return fmt.Errorf("the test of an exception is not there (%s, %q): %s %v %s", e.Test, e.Contains, e.Role, e.Verbs, e.Resource)
	}
	return nil
}
