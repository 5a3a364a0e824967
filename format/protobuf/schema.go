// Package protobuf reads and writes messages of Protocol Buffers as values, by descriptors alone.
//
// A [Schema] is a set of descriptors: compiled from .proto files ([Compile]), or read from what a
// compiler or a server has made of them ([Read]). decode.go makes a value of a message, encode.go
// a message of a value, and wellknown.go has the types with a form of their own.
//
// Invariant: a message that Decode makes a value of is what Encode makes of this value, except for
// fields that the schema does not know. The package must not know gRPC, or nodes.
package protobuf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Schema is a set of descriptors. It is immutable once it is made.
type Schema struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

func newSchema() *Schema {
	files := new(protoregistry.Files)
	return &Schema{files: files, types: dynamicpb.NewTypes(files)}
}

// add adds a file and what it imports.
func (s *Schema) add(f protoreflect.FileDescriptor) error {
	if _, err := s.files.FindFileByPath(f.Path()); err == nil {
		return nil
	}
	for i := range f.Imports().Len() {
		if err := s.add(f.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return s.files.RegisterFile(f)
}

// Read returns the schema of a FileDescriptorSet, as protoc and buf write it.
func Read(data []byte) (*Schema, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("not a FileDescriptorSet: %w", err)
	}
	return Link(set.GetFile())
}

// Link returns the schema of files that refer to each other. Files of package google.protobuf may
// be missing.
func Link(files []*descriptorpb.FileDescriptorProto) (*Schema, error) {
	if len(files) == 0 {
		return nil, errors.New("there are no files in it")
	}
	l := &links{byPath: make(map[string]*descriptorpb.FileDescriptorProto), schema: newSchema()}
	for _, f := range files {
		l.byPath[f.GetName()] = f
	}
	for _, f := range files {
		if _, err := l.link(f.GetName(), nil); err != nil {
			return nil, err
		}
	}
	return l.schema, nil
}

type links struct {
	byPath map[string]*descriptorpb.FileDescriptorProto
	schema *Schema
}

// link adds a file and what it imports; above are the files that import it.
func (l *links) link(path string, above []string) (protoreflect.FileDescriptor, error) {
	if d, err := l.schema.files.FindFileByPath(path); err == nil {
		return d, nil
	}
	if slices.Contains(above, path) {
		return nil, fmt.Errorf("%s imports itself", path)
	}
	f := l.byPath[path]
	if f == nil {
		d, err := knownFile(path)
		if err != nil {
			return nil, fmt.Errorf("it lacks the file %s, which others import", path)
		}
		return d, l.schema.add(d)
	}
	for _, imported := range f.GetDependency() {
		if _, err := l.link(imported, append(above, path)); err != nil {
			return nil, err
		}
	}
	d, err := protodesc.NewFile(f, l.schema.files)
	if err != nil {
		return nil, err
	}
	return d, l.schema.files.RegisterFile(d)
}

// knownFile returns a file that every program has.
func knownFile(path string) (protoreflect.FileDescriptor, error) {
	s, err := Compile([]string{path}, noFile)
	if err != nil {
		return nil, err
	}
	return s.files.FindFileByPath(path)
}

func noFile(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// Known is the schema of what every program has: health checks, reflection, and the details of
// errors. It is compiled when it is first asked for.
var Known = sync.OnceValue(func() *Schema {
	s, err := Compile([]string{
		"google/rpc/error_details.proto", "google/rpc/status.proto", "grpc/health/v1/health.proto",
		"grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto",
	}, noFile)
	if err != nil {
		panic(err) // they are part of the program
	}
	return s
})

// Method finds a method by its name, such as shop.v1.Orders/Get, or returns nil.
func (s *Schema) Method(name string) protoreflect.MethodDescriptor {
	service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !ok {
		return nil
	}
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(service))
	if sd, isService := d.(protoreflect.ServiceDescriptor); err == nil && isService {
		return sd.Methods().ByName(protoreflect.Name(method))
	}
	return nil
}

// Methods returns the names of all methods, in order.
func (s *Schema) Methods() (names []string) {
	for f := range s.files.RangeFiles {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				names = append(names, MethodName(methods.Get(j)))
			}
		}
	}
	slices.Sort(names)
	return names
}

// Messages returns the full names of the types of messages that the files declare, nested ones and
// those that come with every program apart, in order.
func (s *Schema) Messages() (names []string) {
	for f := range s.files.RangeFiles {
		if Known().FileOf(f.Path()) != nil {
			continue
		}
		for i := range f.Messages().Len() {
			names = append(names, string(f.Messages().Get(i).FullName()))
		}
	}
	slices.Sort(names)
	return names
}

// MethodName returns the name of a method, such as shop.v1.Orders/Get.
func MethodName(m protoreflect.MethodDescriptor) string {
	return string(m.Parent().FullName()) + "/" + string(m.Name())
}

// Message finds a type of message by its full name, or returns nil. Those of [Known] are found in
// any schema.
func (s *Schema) Message(name protoreflect.FullName) protoreflect.MessageDescriptor {
	d, err := s.files.FindDescriptorByName(name)
	if m, ok := d.(protoreflect.MessageDescriptor); err == nil && ok {
		return m
	}
	if s == Known() {
		return nil
	}
	return Known().Message(name)
}

// Files returns the file that declares a symbol, and all that it imports; nil if there is none.
func (s *Schema) Files(symbol protoreflect.FullName) []protoreflect.FileDescriptor {
	d, err := s.files.FindDescriptorByName(symbol)
	if err != nil {
		return nil
	}
	return withImports(d.ParentFile())
}

// FileOf returns a file by its path, and all that it imports; nil if there is none.
func (s *Schema) FileOf(path string) []protoreflect.FileDescriptor {
	f, err := s.files.FindFileByPath(path)
	if err != nil {
		return nil
	}
	return withImports(f)
}

func withImports(f protoreflect.FileDescriptor) []protoreflect.FileDescriptor {
	var all []protoreflect.FileDescriptor
	seen := make(map[string]bool)
	var visit func(protoreflect.FileDescriptor)
	visit = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] || f.IsPlaceholder() {
			return
		}
		seen[f.Path()] = true
		all = append(all, f)
		for i := range f.Imports().Len() {
			visit(f.Imports().Get(i).FileDescriptor)
		}
	}
	visit(f)
	return all
}

// Resolver finds types for the JSON form of messages.
func (s *Schema) Resolver() *dynamicpb.Types { return s.types }
