package grpc

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/schema"
)

// methodOf finds the method that a field names.
func methodOf(s *protobuf.Schema, c schema.Config, name string) (protoreflect.MethodDescriptor, error) {
	want := strings.TrimPrefix(c.String(name), "/")
	if !validMethod(want) {
		return nil, c.Errorf(name, diag.CodeBadValue, "%q is not the name of a method", want).WithHint("write one such as shop.v1.Orders/Get")
	}
	if s == nil {
		return nil, nil
	}
	if m := s.Method(want); m != nil {
		return m, nil
	}
	d := c.Errorf(name, diag.CodeBadValue, "there is no method %s", want)
	known := s.Methods()
	if len(known) == 0 {
		return nil, d.WithHint("the files have no services")
	}
	// Those with the same name, or of the same service, come first.
	service, method, _ := strings.Cut(want, "/")
	like := func(name string) int {
		switch {
		case strings.EqualFold(name, want):
			return 0
		case strings.HasSuffix(name, "/"+method):
			return 1
		case strings.HasPrefix(name, service+"/"):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(known, func(a, b string) int { return like(a) - like(b) })
	return nil, d.WithHint("the services have %s", strings.Join(known[:min(len(known), 10)], ", "))
}

// validMethod reports whether a text may be the name of a method.
func validMethod(name string) bool {
	service, method, ok := strings.Cut(name, "/")
	return ok && protoreflect.FullName(service).IsValid() && protoreflect.Name(method).IsValid()
}
