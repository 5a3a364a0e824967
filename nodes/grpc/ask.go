package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// maxFiles is how many files a service may have for one method.
	maxFiles = 1000

	// The versions of reflection, best first.
	reflectionV1      = "grpc.reflection.v1.ServerReflection"
	reflectionV1Alpha = "grpc.reflection.v1alpha.ServerReflection"
	reflectionMethod  = "ServerReflectionInfo"
)

// ask returns the types of the method. With reflection, the first call asks the service for
// them, and others wait for it; after a failure the next one asks.
func (n *callNode) ask(ctx context.Context) (*types, error) {
	if n.fixed != nil {
		return n.fixed, nil
	}
	n.asked.Lock()
	defer n.asked.Unlock()
	if n.asked.types != nil {
		return n.asked.types, nil
	}
	s, err := n.reflect(ctx, reflectionV1)
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		s, err = n.reflect(ctx, reflectionV1Alpha)
	}
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		err = &node.Error{Err: errors.New(n.label + "the service has no reflection: use proto or descriptor"), Code: "UNIMPLEMENTED", Status: http.StatusNotImplemented, Permanent: true}
	}
	if err != nil {
		return nil, err
	}
	method := s.Method(n.method)
	if method == nil {
		return nil, &node.Error{Err: errors.New(n.label + "the service has no such method"), Code: "UNIMPLEMENTED", Status: http.StatusNotImplemented, Permanent: true}
	}
	t := &types{schema: s, method: method, client: n.newClient(n.method, n.protocol, method.Output())}
	n.asked.types = t
	return t, nil
}

// forget makes the next call ask for the types if an error says that they may have changed.
func (n *callNode) forget(t *types, err error) {
	var unfit *protobuf.Error
	if n.fixed != nil || !errors.As(err, &unfit) && connect.CodeOf(err) != connect.CodeUnimplemented && connect.CodeOf(err) != connect.CodeInternal {
		return
	}
	n.asked.Lock()
	defer n.asked.Unlock()
	if n.asked.types == t {
		n.asked.types = nil
	}
}

// reflect asks for the files of the service, and for what they import.
func (n *callNode) reflect(ctx context.Context, service string) (*protobuf.Schema, error) {
	known := protobuf.Known()
	method := known.Method(service + "/" + reflectionMethod)
	r := &reflection{method: method, stream: n.newClient(service+"/"+reflectionMethod, protocolGRPC, method.Output()).CallBidiStream(ctx)}
	for name, list := range n.service.Header {
		r.stream.RequestHeader()[name] = list
	}
	defer func() {
		_ = r.stream.CloseRequest() // what it says after its answers does not matter
		_ = r.stream.CloseResponse()
	}()
	name, _, _ := strings.Cut(n.method, "/")
	files, err := r.ask("file_containing_symbol", name)
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]bool)
	for _, f := range files {
		byPath[f.GetName()] = true
	}
	for i := 0; i < len(files); i++ {
		for _, imported := range files[i].GetDependency() {
			if byPath[imported] {
				continue
			}
			if len(files) > maxFiles {
				return nil, fmt.Errorf("reflection: the service has more than %d files", maxFiles)
			}
			more, err := r.ask("file_by_filename", imported)
			if err != nil {
				return nil, err
			}
			for _, f := range more {
				if !byPath[f.GetName()] {
					byPath[f.GetName()] = true
					files = append(files, f)
				}
			}
			byPath[imported] = true
		}
	}
	s, err := protobuf.Link(files)
	if err != nil {
		return nil, fmt.Errorf("reflection: %w", err)
	}
	return s, nil
}

// A reflection is a stream of questions for files.
type reflection struct {
	method protoreflect.MethodDescriptor
	stream *connect.BidiStreamForClient[dynamicpb.Message, dynamicpb.Message]
}

// ask asks one question. An error about the symbol is one about the method.
func (r *reflection) ask(question, about string) ([]*descriptorpb.FileDescriptorProto, error) {
	known := protobuf.Known()
	m, err := known.Encode(r.method.Input(), value.Map(value.Field{Name: question, Value: value.String(about)}))
	if err != nil {
		return nil, err
	}
	if err := r.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	answer, err := r.stream.Receive()
	if errors.Is(err, io.EOF) {
		err = errors.New("reflection: the service has ended the stream without an answer")
	}
	if err != nil {
		return nil, err
	}
	v, err := known.Decode(answer)
	if err != nil {
		return nil, err
	}
	if failed, ok := v.Get("error_response"); ok {
		code, _ := failed.Get("error_code")
		number, _ := code.AsInt()
		text, _ := failed.Get("error_message")
		said, _ := text.AsString()
		if connect.Code(number) == connect.CodeUnimplemented { // not of reflection itself
			number = int64(connect.CodeNotFound)
		}
		return nil, connect.NewError(connect.Code(number), fmt.Errorf("reflection of %s: %s", about, said))
	}
	response, _ := v.Get("file_descriptor_response")
	list, _ := response.Get("file_descriptor_proto")
	if list.Kind() != value.KindList {
		return nil, errors.New("reflection: the service has not answered with files")
	}
	var files []*descriptorpb.FileDescriptorProto
	for _, elem := range list.Elems() {
		data, _ := elem.AsBinary()
		f := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(data, f); err != nil {
			return nil, fmt.Errorf("reflection: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}
