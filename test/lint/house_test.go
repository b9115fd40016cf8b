package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the repository's root, trees are its directories with code of this project.
const root = "../.."

var trees = []string{"api", "proto", "hub", "agent", "cmd", "deploy", "test"}

// longest is how many lines a file may have.
const longest = 400

// pure are the packages, and the files of packages with I/O, that decide without a clock, a
// goroutine or a network.
var pure = []string{
	"api/v1alpha1/",
	"proto/convert/",
	"proto/version/",
	"hub/access/desired.go",
	"hub/assignment/attribute.go",
	"hub/assignment/override.go",
	"hub/assignment/plan.go",
	"hub/assignment/render.go",
	"hub/buffer/",
	"hub/failover/",
	"hub/session/lifecycle/",
	"hub/session/status/",
	"hub/placement/",
	"hub/scheduling/queue/",
	"hub/member/health/",
	"hub/console/messages/",
	"hub/identity/pki/",
	"hub/identity/record.go",
	"hub/link/protocol/",
	"agent/render/",
	"agent/observe/",
	"agent/nodegroup/",
	"agent/fence/lease.go",
	"agent/guard/machine.go",
	"agent/capacity/buckets.go",
	"agent/capacity/images.go",
	"agent/assignment/pending.go",
	"agent/capacity/model.go",
	"agent/capacity/node_index.go",
	"agent/capacity/pending_pods.go",
	"agent/link/machine.go",
	"agent/link/reporter.go",
	"agent/link/capacity_reports.go",
	"agent/link/negotiate.go",
	"agent/link/results.go",
	"agent/link/summary.go",
	"agent/link/inventory_digest.go",
	"test/faults/checker/",
}

// banned names do not show what a package holds.
var banned = []string{"pkg", "util", "utils", "common", "helper", "helpers", "misc", "shared"}

// file is a parsed Go file, by its path from the root.
type file struct {
	path   string
	lines  int
	syntax *ast.File
	set    *token.FileSet
}

func (f file) generated() bool { return ast.IsGenerated(f.syntax) }
func (f file) test() bool      { return strings.HasSuffix(f.path, "_test.go") }

func (f file) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, f.set.Position(n.Pos()).Line)
}

func goFiles(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parsed parses all Go files once, for all tests.
var parsed = sync.OnceValues(func() ([]file, error) {
	var files []file
	for _, tree := range trees {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			set := token.NewFileSet()
			syntax, err := parser.ParseFile(set, path, content, parser.ParseComments)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			files = append(files, file{filepath.ToSlash(relative), bytes.Count(content, []byte("\n")), syntax, set})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})

func isPure(f file) bool {
	return !f.test() && slices.ContainsFunc(pure, func(prefix string) bool { return strings.HasPrefix(f.path, prefix) })
}

func TestPureCodeStartsNothingAndReadsNoClock(t *testing.T) {
	files := goFiles(t)
	for _, prefix := range pure {
		if !slices.ContainsFunc(files, func(f file) bool { return strings.HasPrefix(f.path, prefix) }) {
			t.Errorf("%s is listed as pure and does not exist", prefix)
		}
	}
	for _, f := range files {
		if !isPure(f) {
			continue
		}
		for _, finding := range impurities(f) {
			t.Error(finding)
		}
	}
}

// clockFunctions are the functions of package time that do more than calculate.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// pureExceptions are packages without I/O below a package that does I/O.
var pureExceptions = []string{"net/netip", "net/url"}

// impurities returns what a pure file must not contain.
func impurities(f file) []string {
	var findings []string
	add := func(n ast.Node, what string) { findings = append(findings, f.at(n)+": pure code "+what) }
	for _, spec := range f.syntax.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if slices.Contains(pureExceptions, path) {
			continue
		}
		for _, package_ := range []string{"sync", "net", "net/http", "os/exec", "google.golang.org/grpc", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"} {
			if path == package_ || strings.HasPrefix(path, package_+"/") {
				add(spec, "imports "+path)
			}
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.ChanType:
			add(n, "has a channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockFunctions, n.Sel.Name) {
				add(n, "calls time."+n.Sel.Name+", take the time as a parameter")
			}
		}
		return true
	})
	return findings
}

func TestPackagesAreNamedForWhatTheyHold(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, element := range strings.Split(filepath.ToSlash(filepath.Dir(f.path)), "/") {
			if slices.Contains(banned, element) {
				t.Errorf("%s: a package named %s", f.path, element)
			}
		}
	}
}

func TestPackagesHaveACharter(t *testing.T) {
	charter := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.generated() {
			continue // its source documents it
		}
		dir := filepath.ToSlash(filepath.Dir(f.path))
		// A command documents it above its main.
		documented := f.syntax.Doc != nil && (filepath.Base(f.path) == "doc.go" || f.syntax.Name.Name == "main")
		charter[dir] = charter[dir] || documented
	}
	for dir, has := range charter {
		if !has {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.lines > longest && !f.generated() {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, longest)
		}
	}
}
