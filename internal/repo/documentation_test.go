package repo

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEverythingExportedIsDocumented(t *testing.T) {
	bare, err := undocumented(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range bare {
		t.Errorf("no doc comment: %s", name)
	}
}

func TestUndocumentedNamesAreFound(t *testing.T) {
	dir := write(t, map[string]string{
		"documented/a.go": `// Package documented has nothing to find fault with.
package documented

// Limit and the others are one group.
const (
	Limit = 1
	Other = 2
)

var (
	A = 1 // A has a comment behind it.
	// B has one above it.
	B = 2
	c = 3
)

// T is a type.
type T struct {
	// Name and Value belong together.
	Name  string
	Value int

	Weight int // in permits
	Closed bool
	hidden int
}

// Point is explained by this sentence alone.
type Point struct {
	X int

	Y int
}

// M does nothing.
func (T) M() {}

type unexported struct{ Field int }

func (unexported) Method() {}
`,
		"documented/a_test.go":     "package documented\n\nfunc Helper() {}\n",
		"documented/testdata/b.go": "package broken\n\nfunc F() {}\n",
		"command/main.go":          "package main\n\nfunc Exported() {}\n\nfunc main() {}\n",
		"nested/go.mod":            "module example.com/nested\n",
		"nested/a.go":              "package nested\n\nfunc F() {}\n",
		"bare/a.go": `package bare

const C = 1

var V, w = 1, 2

func F() {}

type T struct{}

func (*T) M() {}

// S is documented, some of its fields are not.
type S struct {
	Early int

	// Middle has a comment.
	Middle int

	Late, later int
	Last        int
}

// I is documented, one of its methods is not.
type I interface {
	// M has a comment.
	M()

	N()
}
`,
	})
	got, err := undocumented(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bare: package bare",
		"bare: C", "bare: V", "bare: F",
		"bare: I.N",
		"bare: S.Early", "bare: S.Late", "bare: S.Last",
		"bare: T", "bare: T.M",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("undocumented names (-want +got):\n%s", diff)
	}
}

// undocumented returns, package by package, the exported names of the module at
// root that have no doc comment. Commands export nothing and are left out.
func undocumented(root string) ([]string, error) {
	var bare []string
	err := walkPackages(root, func(dir string) error {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			if file.Name.Name != "main" {
				files = append(files, file)
			}
		}
		if len(files) == 0 {
			return nil
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		pkg, err := doc.NewFromFiles(fset, files, rel, doc.PreserveAST)
		if err != nil {
			return err
		}
		for _, name := range bareNames(fset, pkg) {
			bare = append(bare, fmt.Sprintf("%s: %s", filepath.ToSlash(rel), name))
		}
		return nil
	})
	return bare, err
}

// bareNames returns the exported names of pkg that have no doc comment.
func bareNames(fset *token.FileSet, pkg *doc.Package) []string {
	var bare []string
	if pkg.Doc == "" {
		bare = append(bare, "package "+pkg.Name)
	}
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			if group.Doc == "" {
				bare = append(bare, bareValues(group.Decl)...)
			}
		}
	}
	funcs := func(prefix string, funcs []*doc.Func) {
		for _, f := range funcs {
			if f.Doc == "" {
				bare = append(bare, prefix+f.Name)
			}
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs("", pkg.Funcs)
	for _, typ := range pkg.Types {
		if typ.Doc == "" {
			bare = append(bare, typ.Name)
		}
		for _, field := range bareFields(fset, typ.Decl) {
			bare = append(bare, typ.Name+"."+field)
		}
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
	}
	return bare
}

// bareValues returns the exported names in a declaration of constants or
// variables that have no comment of their own.
func bareValues(decl *ast.GenDecl) []string {
	var bare []string
	for _, spec := range decl.Specs {
		if spec := spec.(*ast.ValueSpec); spec.Doc == nil && spec.Comment == nil {
			bare = append(bare, exported(spec.Names)...)
		}
	}
	return bare
}

// bareFields returns the exported fields or methods of the struct or interface
// that decl declares for which no comment speaks. A comment, above a line or
// behind it, speaks for all the lines up to the next blank one: beside fields
// that need a word there are some whose name is enough. Where no field has a
// comment, the one on the type speaks for them all.
func bareFields(fset *token.FileSet, decl *ast.GenDecl) []string {
	var list *ast.FieldList
	switch typ := decl.Specs[0].(*ast.TypeSpec).Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	commented := func(field *ast.Field) bool { return field.Doc != nil || field.Comment != nil }
	if !slices.ContainsFunc(list.List, commented) {
		return nil
	}

	line := func(pos token.Pos) int { return fset.Position(pos).Line }
	var bare, block []string
	covered, last := false, line(list.Opening)
	for _, field := range list.List {
		if line(start(field)) > last+1 {
			if !covered {
				bare = append(bare, block...)
			}
			covered, block = false, nil
		}
		covered = covered || commented(field)
		block = append(block, exported(field.Names)...)
		last = line(field.End())
	}
	if !covered {
		bare = append(bare, block...)
	}
	return bare
}

// start returns where the field begins, with the comment above it.
func start(field *ast.Field) token.Pos {
	if field.Doc != nil {
		return field.Doc.Pos()
	}
	return field.Pos()
}

// exported returns the names that are exported.
func exported(idents []*ast.Ident) []string {
	var names []string
	for _, ident := range idents {
		if ident.IsExported() {
			names = append(names, ident.Name)
		}
	}
	return names
}
