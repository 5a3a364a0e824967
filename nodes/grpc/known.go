package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/value"
)

// healthService is the service that tells whether a server is ready.
const healthService = "grpc.health.v1.Health"

// watchEvery is how often a client that watches is told of a change, at most.
const watchEvery = time.Second

// addKnown adds the services that each server has, unless the workflow has them.
func (g *generation) addKnown(reflection bool) {
	names := []string{healthService + "/Check", healthService + "/Watch"}
	if reflection {
		names = append(names, reflectionV1+"/"+reflectionMethod, reflectionV1Alpha+"/"+reflectionMethod)
	}
	for _, name := range names {
		if g.methods[name] == nil {
			g.add(&method{desc: protobuf.Known().Method(name), port: -1})
		}
	}
}

// services returns the names of the services that are served.
func (g *generation) services() []string {
	all := make(map[string]bool)
	for name := range g.methods {
		service, _, _ := strings.Cut(name, "/")
		all[service] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// health returns how a service is. ok is false if there is no such service.
func (c *call) health(m *msg) (status string, ok bool) {
	g := c.endpoint.generations.Current()
	service := m.Get(m.Descriptor().Fields().ByName("service")).String()
	c.endpoint.mu.Lock()
	stopped := c.endpoint.stoppedLocked()
	c.endpoint.mu.Unlock()
	switch {
	case service != "" && !slices.Contains(g.services(), service):
		return "SERVICE_UNKNOWN", false
	case stopped || !g.ready():
		return "NOT_SERVING", true
	}
	return "SERVING", true
}

func (c *call) healthMessage(status string) (*msg, error) {
	return protobuf.Known().Encode(c.method.desc.Output(), value.Map(value.Field{Name: "status", Value: value.String(status)}))
}

// check answers whether a service is ready.
func (g *generation) check(c *call, m *msg) (*response, error) {
	status, ok := c.health(m)
	if !ok {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such service"))
	}
	answer, err := c.healthMessage(status)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(answer), nil
}

// watch tells whether a service is ready, and when that changes.
func (g *generation) watch(ctx context.Context, c *call, m *msg, s *connect.ServerStream[msg]) error {
	last := ""
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if status, _ := c.health(m); status != last {
			last = status
			answer, err := c.healthMessage(status)
			if err == nil {
				err = s.Send(answer)
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.endpoint.stopping():
			return errStopping
		}
	}
}

// reflect answers questions about the types of the services.
func (g *generation) reflect(_ context.Context, c *call, s *connect.BidiStream[msg, msg]) error {
	known := protobuf.Known()
	for {
		var m *msg
		err := c.read(func() (err error) {
			m, err = s.Receive()
			return err
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		question, err := known.Decode(m)
		if err != nil {
			return connect.NewError(connect.CodeInvalidArgument, err)
		}
		host, _ := question.Get("host")
		answer, err := known.Encode(c.method.desc.Output(), value.Map(
			value.Field{Name: "valid_host", Value: host},
			value.Field{Name: "original_request", Value: question},
			c.endpoint.generations.Current().describe(question),
		))
		if err == nil {
			err = s.Send(answer)
		}
		if err != nil {
			return err
		}
	}
}

// describe answers one question.
func (g *generation) describe(question value.Value) value.Field {
	ask := func(name string) (string, bool) {
		v, ok := question.Get(name)
		text, _ := v.AsString()
		return text, ok
	}
	unknown := func(code connect.Code, what string) value.Field {
		return value.Field{Name: "error_response", Value: value.Map(
			value.Field{Name: "error_code", Value: value.Int(int64(code))},
			value.Field{Name: "error_message", Value: value.String(what)},
		)}
	}
	if _, ok := ask("list_services"); ok {
		var list []value.Value
		for _, name := range g.services() {
			list = append(list, value.Map(value.Field{Name: "name", Value: value.String(name)}))
		}
		return value.Field{Name: "list_services_response", Value: value.Map(value.Field{Name: "service", Value: value.List(list...)})}
	}
	var files []protoreflect.FileDescriptor
	about := ""
	for _, s := range []*protobuf.Schema{g.schema, protobuf.Known()} {
		if path, ok := ask("file_by_filename"); ok && files == nil {
			about, files = path, s.FileOf(path)
		} else if symbol, ok := ask("file_containing_symbol"); ok && files == nil {
			about, files = symbol, s.Files(protoreflect.FullName(symbol))
		}
	}
	if about == "" {
		return unknown(connect.CodeUnimplemented, "only services, files and symbols are known")
	}
	if files == nil {
		return unknown(connect.CodeNotFound, fmt.Sprintf("%.200q is not known", about))
	}
	list := make([]value.Value, 0, len(files))
	for _, f := range files {
		data, err := proto.Marshal(protodesc.ToFileDescriptorProto(f))
		if err != nil {
			return unknown(connect.CodeInternal, err.Error())
		}
		list = append(list, value.Binary(data))
	}
	return value.Field{Name: "file_descriptor_response", Value: value.Map(value.Field{Name: "file_descriptor_proto", Value: value.List(list...)})}
}
