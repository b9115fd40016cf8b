package lint

import (
	"go/ast"
	"strings"
	"testing"
)

// A controller without a rate limiter of its own gets controller-runtime's default,
// which retries 10 items a second in all: after an outage of seconds thousands of
// items wait for minutes.
func TestControllersConfigureTheirRetries(t *testing.T) {
	controllers := 0
	for _, f := range goFiles(t) {
		if f.test() || !strings.HasPrefix(f.path, "hub/") {
			continue
		}
		limited := mentions(f.syntax, "RateLimiter")
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !mentions(fn, "ControllerManagedBy") {
				continue
			}
			controllers++
			if !limited {
				t.Errorf("%s: %s sets up a controller, and its file names no RateLimiter: set it in the controller's options", f.at(fn), fn.Name.Name)
			}
		}
		for _, options := range controllerOptions(f.syntax) {
			if !mentions(options, "RateLimiter") {
				t.Errorf("%s: options of a controller without a RateLimiter", f.at(options))
			}
		}
	}
	if controllers == 0 {
		t.Error("no controller was found: the test searches for the wrong name")
	}
}

// controllerOptions returns the literals of controller.Options and
// controller.TypedOptions.
func controllerOptions(root ast.Node) (found []*ast.CompositeLit) {
	ast.Inspect(root, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		kind := literal.Type
		if generic, ok := kind.(*ast.IndexExpr); ok {
			kind = generic.X
		}
		if selector, ok := kind.(*ast.SelectorExpr); ok && (selector.Sel.Name == "Options" || selector.Sel.Name == "TypedOptions") {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == "controller" {
				found = append(found, literal)
			}
		}
		return true
	})
	return found
}

// mentions reports whether a name occurs in a piece of code.
func mentions(root ast.Node, name string) bool {
	found := false
	ast.Inspect(root, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}

// A manager without NewCache gets client-go's reflectors, which follow an API server up to two
// minutes after an outage: see proto/reconnect.
func TestManagersHaveCachesThatReconnect(t *testing.T) {
	managers := 0
	for _, f := range goFiles(t) {
		if f.test() || !strings.HasPrefix(f.path, "hub/") && !strings.HasPrefix(f.path, "agent/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			options, ok := n.(*ast.CompositeLit)
			if !ok || options.Type == nil || !mentions(options.Type, "Options") || !mentions(options, "HealthProbeBindAddress") {
				return true
			}
			managers++
			if !mentions(options, "NewCache") {
				t.Errorf("%s: options of a manager without NewCache", f.at(options))
			}
			return true
		})
	}
	if managers != 4 {
		t.Errorf("%d options of managers were found, want those of hub, console, agent and door", managers)
	}
}
