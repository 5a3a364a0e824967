// Package protofile reads which types of Protocol Buffers the fields of a node name: .proto files,
// the text of one, or descriptors. The package must not know what is done with them.
package protofile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/schema"
)

// Fields are the fields that [Read] reads.
func Fields() []*schema.Field {
	return []*schema.Field{
		schema.Strings("proto").Doc("The .proto files, as other files import them: relative to one of `import_paths`."),
		schema.String("source").Doc("In place of `proto`: the text of a .proto file, for a few types."),
		schema.Strings("import_paths").Doc("Folders in which .proto files are, relative to the document. By default the folder of the document."),
		schema.String("descriptor").Doc("In place of `proto`: a file with a FileDescriptorSet, such as `protoc --include_imports -o FILE` and `buf build -o FILE` write. Relative to the document."),
	}
}

// besideDocument returns a path that a field of a document has.
func besideDocument(c schema.Config, name, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(c.Pos(name).File), path)
}

// Read reads the types that the fields of a config name; nil if no field says which they are. It reads files, so that
// a check of the workflow finds what is wrong with them.
func Read(c schema.Config) (*protobuf.Schema, error) {
	var given []string
	for _, name := range []string{"proto", "source", "descriptor"} {
		if c.Has(name) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) > 1:
		return nil, c.Errorf(given[1], diag.CodeBadValue, "both %s and %s say what the types are", given[0], given[1]).WithHint("remove one of them")
	case c.Has("import_paths") && !c.Has("proto") && !c.Has("source"):
		return nil, c.Errorf("import_paths", diag.CodeBadValue, "there are no files to look for").WithHint("add proto, or remove import_paths")
	case c.Has("descriptor"):
		data, err := os.ReadFile(besideDocument(c, "descriptor", c.String("descriptor")))
		if err != nil {
			return nil, c.Errorf("descriptor", fileCode(err), "%v", err).WithHint("write a path relative to the document")
		}
		s, err := protobuf.Read(data)
		if err != nil {
			return nil, c.Errorf("descriptor", diag.CodeBadValue, "%s: %v", c.String("descriptor"), err).WithHint("make it with protoc --include_imports -o FILE, or buf build -o FILE")
		}
		return s, nil
	case len(given) > 0:
		return compiled(c, given[0])
	}
	return nil, nil
}

// sourceFile is what a file is called whose text is in the document.
const sourceFile = "source"

// compiled compiles the files of the field proto, or the text of the field source.
func compiled(c schema.Config, name string) (*protobuf.Schema, error) {
	folders := []string{filepath.Dir(c.Pos(name).File)}
	if c.Has("import_paths") {
		folders = nil
		for _, folder := range c.Strings("import_paths") {
			folders = append(folders, besideDocument(c, "import_paths", folder))
		}
	}
	files := c.Strings("proto")
	if name == "source" {
		files = []string{sourceFile}
	}
	s, err := protobuf.Compile(files, func(file string) (io.ReadCloser, error) {
		if name == "source" && file == sourceFile {
			return io.NopCloser(strings.NewReader(c.String("source"))), nil
		}
		if !filepath.IsLocal(file) {
			return nil, errors.New("the path of a file leads out of import_paths")
		}
		for _, folder := range folders {
			f, err := os.Open(filepath.Join(folder, file))
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		return nil, placeFiles(c, name, err)
	}
	return s, nil
}

// placeFiles reports what is wrong with .proto files at the field that has them or names them.
func placeFiles(c schema.Config, name string, err error) error {
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	var found diag.List
	for _, err := range errs {
		d := c.Errorf(name, fileCode(err), "%v", err)
		if errors.Is(err, fs.ErrNotExist) {
			d = d.WithHint("write a path that is relative to one of import_paths, by default the folder of the document")
		}
		found.Add(d)
	}
	return found.Err()
}

func fileCode(err error) diag.Code {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.CodeNoFile
	}
	return diag.CodeBadValue
}
