package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeLines is the maximum length of README.md.
const readmeLines = 110

var (
	fence     = regexp.MustCompile("^ *```(.*)$")
	code      = regexp.MustCompile("`[^`]*`")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	anchorID  = regexp.MustCompile(`<a id="([^"]+)">`)
	inSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	target    = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeCall  = regexp.MustCompile("`make ([^`]*)`")
	pageCited = regexp.MustCompile(`docs/[a-z]+\.md(, sections? ([0-9]+)|, "([^"]+)")?`)
)

// page is a Markdown file, without the content of fenced blocks.
type page struct {
	lines    []string
	headings []string
	anchors  map[string]bool
	// commands are the lines of its sh blocks.
	commands []string
}

// text returns the content of the repository's files with these suffixes, by path.
func text(t *testing.T, suffixes ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".fleet", ".kind", "bin", "dist"}, entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		files[filepath.ToSlash(relative)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func pages(t *testing.T) map[string]page {
	t.Helper()
	all := map[string]page{}
	for name, content := range text(t, ".md") {
		all[name] = parsePage(content)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func parsePage(content string) page {
	p := page{anchors: map[string]bool{}}
	language, fenced := "", false
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\n")
		if mark := fence.FindStringSubmatch(line); mark != nil {
			fenced, language = !fenced, mark[1]
			continue
		}
		if fenced {
			if language == "sh" {
				p.commands = append(p.commands, line)
			}
			continue
		}
		p.lines = append(p.lines, line)
		if title := heading.FindStringSubmatch(line); title != nil {
			p.headings = append(p.headings, title[1])
			p.anchors[p.unused(slug(title[1]))] = true
		}
		for _, id := range anchorID.FindAllStringSubmatch(line, -1) {
			p.anchors[id[1]] = true
		}
	}
	return p
}

// unused returns an anchor with a number if another heading has the anchor already.
func (p page) unused(anchor string) string {
	name := anchor
	for n := 1; p.anchors[name]; n++ {
		name = fmt.Sprintf("%s-%d", anchor, n)
	}
	return name
}

// slug returns the anchor of a heading, as GitHub makes it.
func slug(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	return strings.ReplaceAll(inSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

func TestLinksOfPagesResolve(t *testing.T) {
	all, found := pages(t), 0
	for name, p := range all {
		for _, line := range p.lines {
			for _, to := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if strings.Contains(to[1], ":") {
					continue // not of this repository
				}
				found++
				if problem := broken(all, name, to[1]); problem != "" {
					t.Errorf("%s links to %s, and %s", name, to[1], problem)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d links were found", found)
	}
}

// broken returns why a link of a page is broken, empty if it is not.
func broken(all map[string]page, from, to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	if file == "" {
		file = from
	} else {
		file = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(root, file)); err != nil || strings.HasPrefix(file, "..") {
		return "there is no such file in the repository"
	}
	if anchor != "" && !all[file].anchors[anchor] {
		return fmt.Sprintf("%s has no such heading", file)
	}
	return ""
}

func TestMakeTargetsInDocumentationExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, name := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets[name[1]] = true
	}
	found := 0
	for name, p := range pages(t) {
		var calls []string
		for _, command := range p.commands {
			if args, ok := strings.CutPrefix(command, "make "); ok {
				calls = append(calls, args)
			}
		}
		for _, call := range makeCall.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
			calls = append(calls, call[1])
		}
		for _, call := range calls {
			for _, wanted := range targetsOf(call) {
				found++
				if !targets[wanted] {
					t.Errorf("%s has `make %s`, and the Makefile no target %s", name, strings.TrimSpace(call), wanted)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets were found", found)
	}
}

// targetsOf returns the targets among the arguments of make: neither variables nor
// flags, nor what follows in a comment or another command.
func targetsOf(args string) (targets []string) {
	for _, arg := range strings.Fields(args) {
		switch {
		case strings.ContainsAny(arg[:1], "#&|;>"):
			return targets
		case !strings.Contains(arg, "=") && arg[0] != '-':
			targets = append(targets, arg)
		}
	}
	return targets
}

// TestDocumentationThatFilesCiteExists checks comments, which name pages by file, and
// sections by number or heading.
func TestDocumentationThatFilesCiteExists(t *testing.T) {
	all, found := pages(t), 0
	for name, content := range text(t, ".go", ".yaml", ".sh", "Makefile") {
		if strings.HasSuffix(name, "lint/docs_test.go") {
			continue
		}
		for _, cited := range pageCited.FindAllStringSubmatchIndex(content, -1) {
			if cited[0] > 0 && content[cited[0]-1] == '/' {
				continue // the end of an address
			}
			found++
			part := func(i int) string {
				if cited[2*i] < 0 {
					return ""
				}
				return content[cited[2*i]:cited[2*i+1]]
			}
			file, _, _ := strings.Cut(part(0), ",")
			p, ok := all[file]
			has := func(title string) bool {
				return slices.ContainsFunc(p.headings, func(h string) bool { return strings.HasPrefix(h, title) })
			}
			if !ok || part(2) != "" && !has(part(2)+". ") || part(3) != "" && !slices.Contains(p.headings, part(3)) {
				t.Errorf("%s cites %s, which does not exist", name, part(0))
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d citations were found", found)
	}
}

func TestReadmeIsShort(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(content), "\n"); lines > readmeLines {
		t.Errorf("README.md has %d lines, more than %d: move the details to a page of docs/", lines, readmeLines)
	}
}
