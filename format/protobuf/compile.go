package protobuf

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/anypb" // files that can be imported, which every program has for expressions
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// included are files that can be imported without a copy of them, and that the program has no
// generated code of: that would be work for each start.
//
//go:embed protos
var included embed.FS

// A FileError is what is wrong with a .proto file.
type FileError struct {
	File      string // as it was imported
	Line, Col int    // 0 for the file as a whole
	Err       error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// maxErrors is how many errors of a file are told.
const maxErrors = 10

// Compile compiles files, and what they import, to a schema. open returns the text of a file; an
// error that wraps [fs.ErrNotExist] says that there is none. The error has a [*FileError] for each
// thing that is wrong.
//
// The compiler of package protocompile itself is not used: importing it takes 0.3 ms before main,
// of programs without gRPC, too.
func Compile(files []string, open func(name string) (io.ReadCloser, error)) (*Schema, error) {
	c := &compiler{open: open, done: make(map[string]linker.File), symbols: new(linker.Symbols)}
	s := newSchema()
	for _, name := range files {
		f, err := c.file(name)
		if err == nil {
			err = s.add(f)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

type compiler struct {
	open    func(name string) (io.ReadCloser, error)
	done    map[string]linker.File
	symbols *linker.Symbols
	path    []string // of the files that are being compiled
}

// file compiles a file, unless that has been done.
func (c *compiler) file(name string) (linker.File, error) {
	if f := c.done[name]; f != nil {
		return f, nil
	}
	for i, other := range c.path {
		if other == name {
			return nil, &FileError{File: name, Err: fmt.Errorf("it imports itself: %s", strings.Join(append(c.path[i:], name), " imports "))}
		}
	}
	c.path = append(c.path, name)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	text, err := c.open(name)
	var f linker.File
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err = c.known(name)
	case err != nil:
		err = &FileError{File: name, Err: err}
	default:
		f, err = c.compile(name, text)
		err = errors.Join(err, text.Close())
	}
	if err != nil {
		return nil, err
	}
	c.done[name] = f
	return f, nil
}

// known returns a file that every program has.
func (c *compiler) known(name string) (linker.File, error) {
	if text, err := included.Open("protos/" + name); err == nil {
		return c.compile(name, text)
	}
	if strings.HasPrefix(name, "google/protobuf/") {
		if d, err := protoregistry.GlobalFiles.FindFileByPath(name); err == nil {
			return linker.NewFileRecursive(d)
		}
	}
	return nil, &FileError{File: name, Err: fs.ErrNotExist}
}

func (c *compiler) compile(name string, text io.Reader) (linker.File, error) {
	var found []error
	handler := reporter.NewHandler(reporter.NewReporter(func(err reporter.ErrorWithPos) error {
		at := err.GetPosition()
		found = append(found, &FileError{File: name, Line: at.Line, Col: at.Col, Err: err.Unwrap()})
		if len(found) == maxErrors {
			return err
		}
		return nil
	}, nil))
	failed := func(err error) error {
		if len(found) > 0 {
			return errors.Join(found...)
		}
		return &FileError{File: name, Err: err}
	}
	tree, err := parser.Parse(name, text, handler)
	if err != nil {
		return nil, failed(err)
	}
	parsed, err := parser.ResultFromAST(tree, true, handler)
	if err != nil {
		return nil, failed(err)
	}
	var imports linker.Files
	for _, imported := range parsed.FileDescriptorProto().GetDependency() {
		f, err := c.file(imported)
		if err != nil {
			return nil, placeImport(name, imported, tree, err)
		}
		imports = append(imports, f)
	}
	linked, err := linker.Link(parsed, imports, c.symbols, handler)
	if err != nil {
		return nil, failed(err)
	}
	if _, err := options.InterpretOptions(linked, handler); err != nil {
		return nil, failed(err)
	}
	if err := linked.ValidateOptions(handler, c.symbols); err != nil {
		return nil, failed(err)
	}
	return linked, nil
}

// placeImport says where a file is imported that is not there.
func placeImport(name, imported string, tree *ast.FileNode, err error) error {
	var e *FileError
	if !errors.As(err, &e) || e.File != imported || !errors.Is(e.Err, fs.ErrNotExist) {
		return err
	}
	for _, d := range tree.Decls {
		if in, ok := d.(*ast.ImportNode); ok && in.Name.AsString() == imported {
			at := tree.NodeInfo(in).Start()
			return &FileError{File: name, Line: at.Line, Col: at.Col, Err: fmt.Errorf("there is no file %s in import_paths", imported)}
		}
	}
	return err
}
