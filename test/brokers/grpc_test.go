package brokers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// grpcTypes writes the descriptors of the service of the tests, and returns the field.
func grpcTypes(t testing.TB) string {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i))
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(pb.File_grpc_testing_test_proto)
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.binpb")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return "descriptor: '" + path + "'"
}

const grpcMethods = `
  methods:
  - {method: grpc.testing.TestService/UnaryCall, port: 'out[0]'}
  - {method: grpc.testing.TestService/StreamingOutputCall, port: 'out[1]'}
  - {method: grpc.testing.TestService/StreamingInputCall, port: 'out[2]'}
  - {method: grpc.testing.TestService/FullDuplexCall, port: 'out[3]'}
  - {method: grpc.testing.TestService/EmptyCall, port: 'out[4]'}
  limits: {message_bytes: 9MiB}
  ports: {'out[0]': [{name: unary}], 'out[1]': [{name: down}], 'out[2]': [{name: up}], 'out[3]': [{name: both}], 'out[4]': [{name: empty}]}
- {kind: snippet, name: unary, language: cel, code: '{"body": {"payload": {"body": body.payload.body}, "username": header["X-User"][0]}, "header": {"seen": "yes"}, "trailer": {"last-bin": body.payload.body}}'}
- {kind: snippet, name: down, language: cel, code: 'body.response_parameters', ports: {out: [{name: each}]}}
- {kind: for, name: each, ports: {'out[0]': [{name: sized}], 'out[1]': [{name: end}]}}
- {kind: snippet, name: sized, language: cel, code: '{"payload": {"body": string(size)}}', ports: {out: [{name: emit}]}}
- {kind: emit, name: emit}
- {kind: snippet, name: end, language: cel, code: 'null'}
- {kind: snippet, name: up, language: cel, code: '{"aggregated_payload_size": body.size()}'}
- {kind: snippet, name: both, language: cel, code: '{"payload": {"body": body.payload.body}}'}
`

const grpcListener = "- {kind: listener, name: web, host: 127.0.0.1, port: 0, limits: {body_bytes: 16MiB}, ports: {out: [{name: rpc, port: in}]}}\n- kind: grpc\n  name: rpc\n  "

// serveGRPC serves the methods, and what rest has for EmptyCall.
func serveGRPC(t testing.TB, rest string) (*flowtest.Flow, *grpc.ClientConn) {
	t.Helper()
	f := newGRPCFlow(t)
	f.Serve(grpcListener + grpcTypes(t) + grpcMethods + rest)
	return f, dialGRPC(t, f.Address())
}

func dialGRPC(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const emptyNull = "- {kind: snippet, name: empty, language: cel, code: 'null'}\n"

// user is a context of a call with metadata.
func user(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-user", "ann")
}

func TestGRPCServerUnary(t *testing.T) {
	_, conn := serveGRPC(t, emptyNull)
	client := pb.NewTestServiceClient(conn)
	for _, size := range []int{0, 1, 8 << 20} {
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			var header, trailer metadata.MD
			body := bytes.Repeat([]byte{0xff}, size)
			options = append(options, grpc.Header(&header), grpc.Trailer(&trailer))
			if size > 1<<10 { // the trailer would be as long
				body[0] = 0
				if _, err := client.EmptyCall(t.Context(), &pb.Empty{}, options...); err != nil {
					t.Error(err)
				}
				s, err := client.FullDuplexCall(t.Context(), options[:len(options)-2]...)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: body}}); err != nil {
					t.Fatal(err)
				}
				got, err := s.Recv()
				if err != nil || !bytes.Equal(got.GetPayload().GetBody(), body) {
					t.Errorf("%d bytes: got %d, %v", size, len(got.GetPayload().GetBody()), err)
				}
				s.CloseSend()
				continue
			}
			resp, err := client.UnaryCall(user(t.Context()), &pb.SimpleRequest{Payload: &pb.Payload{Body: body}}, options...)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(resp.GetPayload().GetBody(), body) || resp.GetUsername() != "ann" || fmt.Sprint(header["seen"]) != "[yes]" || trailer["last-bin"][0] != string(body) {
				t.Errorf("got %v, header %v, trailer %v", resp, header, trailer)
			}
		}
	}
}

func TestGRPCServerStreams(t *testing.T) {
	_, conn := serveGRPC(t, emptyNull)
	client := pb.NewTestServiceClient(conn)
	down, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 3}, {Size: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		m, err := down.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(m.GetPayload().GetBody()))
	}
	if fmt.Sprint(got) != "[3 5]" {
		t.Errorf("got %v", got)
	}
	up, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := up.Send(&pb.StreamingInputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := up.CloseAndRecv(); err != nil || m.GetAggregatedPayloadSize() != 3 {
		t.Errorf("got %v, %v", m, err)
	}
	both, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 { // each is answered before the next one is sent
		body := []byte(fmt.Sprint(i))
		if err := both.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: body}}); err != nil {
			t.Fatal(err)
		}
		if m, err := both.Recv(); err != nil || string(m.GetPayload().GetBody()) != string(body) {
			t.Fatalf("got %v, %v", m, err)
		}
	}
	both.CloseSend()
	if _, err := both.Recv(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func wantCode(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("got %v, want %v with %q", err, code, text)
	}
}

func TestGRPCServerErrors(t *testing.T) {
	check := func(rest string, code codes.Code, text string) {
		t.Helper()
		_, conn := serveGRPC(t, rest)
		_, err := pb.NewTestServiceClient(conn).EmptyCall(t.Context(), &pb.Empty{})
		wantCode(t, err, code, text)
	}
	const say = "- {kind: snippet, name: empty, language: cel, code: '{\"message\": \"%s\"}', ports: {out: [{name: fail}]}}\n- {kind: throw, name: fail, %s}\n"
	check(fmt.Sprintf(say, "no such order", "status: 404, public: true"), codes.NotFound, "no such order")
	check(fmt.Sprintf(say, "a secret", "status: 404"), codes.NotFound, "not found (process ")
	check(fmt.Sprintf(say, "a secret", "status: 500"), codes.Internal, "internal (process ")
	check(strings.Replace(fmt.Sprintf(say, "it is there", "status: 409"), "{\"message", "{\"code\": \"ALREADY_EXISTS\", \"message", 1), codes.AlreadyExists, "already exists")
	f, conn := serveGRPC(t, "- {kind: snippet, name: empty, language: cel, code: '{\"nope\": 1}'}\n")
	_, err := pb.NewTestServiceClient(conn).EmptyCall(t.Context(), &pb.Empty{})
	wantCode(t, err, codes.Internal, "internal (process ")
	if _, id, _ := strings.Cut(status.Convert(err).Message(), "(process "); !strings.Contains(f.Log(), "process="+strings.TrimSuffix(id, ")")+" ") {
		t.Errorf("an answer that does not fit: the log does not have the process of %q: %s", err, f.Log())
	}
	_, conn = serveGRPC(t, `- {kind: snippet, name: empty, language: cel, code: '{"status": 400, "body": {"message": "wrong", "code": "FAILED_PRECONDITION", "details": [{"@type": "google.rpc.ErrorInfo", "reason": "R", "domain": "d"}]}}'}`+"\n")
	client := pb.NewTestServiceClient(conn)
	_, err = client.EmptyCall(t.Context(), &pb.Empty{})
	wantCode(t, err, codes.FailedPrecondition, "wrong")
	details := status.Convert(err).Details()
	if info, ok := details[0].(*errdetails.ErrorInfo); len(details) != 1 || !ok || info.GetReason() != "R" {
		t.Errorf("got %v", details)
	}
	_, err = client.UnimplementedCall(t.Context(), &pb.Empty{})
	wantCode(t, err, codes.Unimplemented, "no method")
	_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 10<<20)}})
	wantCode(t, err, codes.ResourceExhausted, "")
}

// The deadline of a client, and a client that cancels, end the process.
func TestGRPCServerCancel(t *testing.T) {
	f, conn := serveGRPC(t, "- {kind: snippet, name: empty, language: cel, code: self, ports: {out: [{name: park}]}}\n")
	ended := make(chan error, 2)
	began := make(chan struct{}, 2)
	f.Probe("park").Do(func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			began <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return node.Fail(context.Cause(ctx))
		})
	})
	client := pb.NewTestServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	_, err := client.EmptyCall(ctx, &pb.Empty{})
	cancel()
	wantCode(t, err, codes.DeadlineExceeded, "")
	<-began
	<-ended
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	_, err = client.EmptyCall(ctx, &pb.Empty{})
	wantCode(t, err, codes.Canceled, "")
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A reload keeps a stream, whose next message the new workflow answers; without the node it ends.
func TestGRPCServerReload(t *testing.T) {
	f, conn := serveGRPC(t, emptyNull)
	s, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say := func(want string) {
		t.Helper()
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || string(m.GetPayload().GetBody()) != want {
			t.Fatalf("got %v, %v", m, err)
		}
	}
	say("a")
	f.Load(grpcListener + grpcTypes(t) + strings.Replace(grpcMethods, `{"payload": {"body": body.payload.body}}'`, `{"payload": {"body": "new"}}'`, 1) + emptyNull)
	say("new")
	f.Load("- {kind: nop, name: nothing}\n")
	_, err = s.Recv()
	wantCode(t, err, codes.Unavailable, "the server stops")
}

func TestGRPCServerHealthAndReflection(t *testing.T) {
	_, conn := serveGRPC(t, emptyNull)
	h := healthpb.NewHealthClient(conn)
	for _, service := range []string{"", "grpc.testing.TestService"} {
		if got, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: got %v, %v", service, got, err)
		}
	}
	_, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "x"})
	wantCode(t, err, codes.NotFound, "")
	w, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("got %v, %v", got, err)
	}
	r, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := r.Send(q); err != nil {
			t.Fatal(err)
		}
		got, err := r.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	list := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if got := fmt.Sprint(list.GetListServicesResponse().GetService()); !strings.Contains(got, "grpc.testing.TestService") || !strings.Contains(got, "grpc.health.v1.Health") {
		t.Errorf("got %s", got)
	}
	files := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "grpc.testing.TestService"}})
	set := new(descriptorpb.FileDescriptorSet)
	for _, data := range files.GetFileDescriptorResponse().GetFileDescriptorProto() {
		f := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(data, f); err != nil {
			t.Fatal(err)
		}
		set.File = append(set.File, f)
	}
	if _, err := protodesc.NewFiles(set); err != nil || len(set.File) < 3 {
		t.Errorf("got %d files, %v", len(set.File), err)
	}
	missing := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "x.Y"}})
	if missing.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
		t.Errorf("got %v", missing)
	}
	r.CloseSend()
	if _, err := r.Recv(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// A page, or curl, calls with JSON over HTTP/1.1, and gRPC-Web comes with its trailers in the body.
func TestGRPCServerWeb(t *testing.T) {
	f, _ := serveGRPC(t, emptyNull)
	post := func(method, contentType, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.Address()+"/grpc.testing.TestService/"+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-User", "ann")
		resp, err := f.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(data)
	}
	if resp, body := post("UnaryCall", "application/json", `{"payload":{"body":"YQ=="}}`); resp.StatusCode != 200 || !strings.Contains(strings.ReplaceAll(body, " ", ""), `{"payload":{"body":"YQ=="},"username":"ann"}`) || resp.Header.Get("Seen") != "yes" {
		t.Errorf("got %d %s %v", resp.StatusCode, body, resp.Header)
	}
	if resp, body := post("UnaryCall", "application/json", `{"payload":{"bdy":"YQ=="}}`); resp.StatusCode != 400 || !strings.Contains(body, "invalid_argument") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if resp, body := post("EmptyCall", "application/grpc-web+proto", "\x00\x00\x00\x00\x00"); resp.StatusCode != 200 || !strings.Contains(strings.ToLower(body), "grpc-status: ") {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	if resp, _ := post("UnaryCall", "text/plain", "x"); resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// A peer is a service of grpc-go.
type peer struct {
	pb.UnimplementedTestServiceServer
	seen     atomic.Pointer[metadata.MD]
	deadline atomic.Bool
	gone     chan struct{} // closed when a call was cancelled
}

func (p *peer) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.seen.Store(&md)
	_, ok := ctx.Deadline()
	p.deadline.Store(ok)
	if md.Get("wait") != nil {
		<-ctx.Done()
		close(p.gone)
		return nil, ctx.Err()
	}
	if md.Get("fail") != nil {
		s, err := status.New(codes.FailedPrecondition, "not yet").WithDetails(&errdetails.RetryInfo{}, &errdetails.ErrorInfo{Reason: "EARLY"})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	}
	return &pb.Empty{}, nil
}

func (p *peer) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if err := grpc.SetTrailer(ctx, metadata.Pairs("last", "one")); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (p *peer) StreamingOutputCall(r *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for _, one := range r.GetResponseParameters() {
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, one.GetSize())}}); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) StreamingInputCall(s grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	size := 0
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
		}
		if err != nil {
			return err
		}
		size += len(m.GetPayload().GetBody())
	}
}

func (p *peer) FullDuplexCall(s grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.Send(&pb.StreamingOutputCallResponse{Payload: m.GetPayload()})
		}
		if err != nil {
			return err
		}
	}
}

// servePeer serves a peer with reflection of a version.
func servePeer(t testing.TB, address string, alpha bool) (*peer, string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	p := &peer{gone: make(chan struct{})}
	pb.RegisterTestServiceServer(s, p)
	healthpb.RegisterHealthServer(s, health.NewServer())
	if alpha {
		grpc_reflection_v1alpha.RegisterServerReflectionServer(s, reflection.NewServer(reflection.ServerOptions{Services: s}))
	} else {
		reflection.Register(s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return p, l.Addr().String()
}

func newGRPCFlow(t testing.TB) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{} // servers do not know another one
	return f
}

// callGRPC makes one call.
func callGRPC(t *testing.T, address, method, fields string, payload value.Value) (value.Value, error) {
	t.Helper()
	f := newGRPCFlow(t)
	defer f.Close()
	f.Load("- {kind: grpc_call, name: call, url: 'http://" + address + "', method: grpc.testing.TestService/" + method + ", " + fields + "}\n")
	v, _, err := f.Engine().Run(context.Background(), "call", payload)
	return v, err
}

func TestGRPCCall(t *testing.T) {
	p, address := servePeer(t, "127.0.0.1:0", false)
	types := grpcTypes(t)
	_, alpha := servePeer(t, "127.0.0.1:0", true)
	check := func(address, method, fields, payload, want string) {
		t.Helper()
		v, err := callGRPC(t, address, method, fields, flowtest.Parse(t, payload))
		if text, _ := v.MarshalJSON(); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s %s: got %s, %v; want %s", method, fields, text, err, want)
		}
	}
	for _, from := range []string{types, "reflection: true", types + ", compression: gzip"} {
		check(address, "EmptyCall", from+", metadata: {x-user: '${self.size()}', data-bin: abc}", "{}", "{}")
		if md := *p.seen.Load(); fmt.Sprint(md["x-user"], md["data-bin"]) != "[0] [abc]" || !p.deadline.Load() {
			t.Errorf("got %v, deadline %t", md, p.deadline.Load())
		}
		check(address, "UnaryCall", from+", answer: full", `{"payload":{"body":"ab"}}`, `"trailer":{"last":["one"]}`)
		check(address, "StreamingOutputCall", from, `{"response_parameters":[{"size":1},{"size":0}]}`, `"body":"AA=="},"peer_socket_address":""},{"payload":{"type":"COMPRESSABLE","body":""}`)
		check(address, "StreamingInputCall", from, `[{"payload":{"body":"ab"}},{"payload":{"body":"c"}}]`, `"aggregated_payload_size":3`)
		check(address, "FullDuplexCall", from, `[{"payload":{"body":"ab"}},{"payload":{"body":"c"}}]`, `"body":"Yw=="`)
		check(address, "FullDuplexCall", from, `[]`, `[]`)
	}
	check(alpha, "StreamingInputCall", "reflection: true", `[]`, `"aggregated_payload_size":0`)
	big := value.Map(value.Field{Name: "payload", Value: value.Map(value.Field{Name: "body", Value: value.Binary(make([]byte, 8<<20))})})
	v, err := callGRPC(t, address, "UnaryCall", types+", limits: {message_bytes: 9MiB}", big)
	if payload, _ := v.Get("payload"); err != nil || payload.Size() < 8<<20 {
		t.Errorf("got %d bytes, %v", payload.Size(), err)
	}
}

func TestGRPCCallErrors(t *testing.T) {
	p, address := servePeer(t, "127.0.0.1:0", false)
	types := grpcTypes(t)
	check := func(address, method, fields, payload, code string, status int, outage bool, text string) *node.Error {
		t.Helper()
		_, err := callGRPC(t, address, method, fields, flowtest.Parse(t, payload))
		if err == nil {
			t.Errorf("%s %s: no error", method, fields)
			return &node.Error{}
		}
		e := node.Describe(err)
		if e.Code != code || e.Status != status || e.Outage != outage || !strings.Contains(err.Error(), text) {
			t.Errorf("%s %s: got %v, code %s, status %d, outage %t", method, fields, err, e.Code, e.Status, e.Outage)
		}
		return e
	}
	e := check(address, "EmptyCall", types+", metadata: {fail: 'yes'}", "{}", "FAILED_PRECONDITION", 400, false, "not yet")
	if text, _ := e.Data.MarshalJSON(); !strings.Contains(string(text), `"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"EARLY"`) {
		t.Errorf("got %s", text)
	}
	check(address, "UnimplementedCall", types, "{}", "UNIMPLEMENTED", 501, false, "")
	check(address, "EmptyCall", types+", timeout: 100ms, metadata: {wait: 'yes'}", "{}", "DEADLINE_EXCEEDED", 504, false, "no complete answer within 100ms")
	<-p.gone // the service has learnt of it
	check(address, "EmptyCall", types, `{"x":1}`, "request", 500, false, "x: grpc.testing.Empty has no fields")
	check(address, "StreamingInputCall", types, `{}`, "request", 500, false, "want a list of messages")
	check(address, "UnaryCall", types+", limits: {message_bytes: 10}", `{"payload":{"body":"012345678901234567890"}}`, "RESOURCE_EXHAUSTED", 429, false, "")
	check(address, "StreamingOutputCall", types+", limits: {messages: 1}", `{"response_parameters":[{"size":1},{"size":0}]}`, "too_large", 502, false, "limits.messages")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	check(l.Addr().String(), "EmptyCall", types, "{}", "connect", 502, true, "refused")
	check(l.Addr().String(), "EmptyCall", "reflection: true", "{}", "connect", 502, true, "refused")
	check(address, "NoSuchCall", "reflection: true", "{}", "UNIMPLEMENTED", 501, false, "no such method")
}

// A service that is away at the start is asked for its types when it is there.
func TestGRPCCallServiceComesLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f := newGRPCFlow(t)
	f.Load("- {kind: grpc_call, name: call, url: 'http://" + address + "', method: grpc.testing.TestService/EmptyCall, reflection: true}\n")
	run := func() error {
		_, _, err := f.Engine().Run(context.Background(), "call", value.Map())
		return err
	}
	if err := run(); err == nil || !node.Describe(err).Outage {
		t.Errorf("got %v", err)
	}
	servePeer(t, address, false)
	if err := run(); err != nil {
		t.Error(err)
	}
}

// Types that do not fit those of the service are an error, or fields that are not there.
func TestGRPCCallWrongSchema(t *testing.T) {
	_, address := servePeer(t, "127.0.0.1:0", false)
	folder := t.TempDir()
	const text = `syntax = "proto3";
package grpc.testing;
import "google/protobuf/timestamp.proto";
message Request { Payload payload = 3; }
message Payload { bytes body = 2; }
message Response { google.protobuf.Timestamp payload = 1; }
service TestService { rpc UnaryCall(Request) returns (Response); }
`
	if err := os.WriteFile(filepath.Join(folder, "wrong.proto"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := callGRPC(t, address, "UnaryCall", "proto: wrong.proto, import_paths: ['"+folder+"']", flowtest.Parse(t, `{"payload":{"body":"ab"}}`))
	if err != nil {
		t.Logf("got %v", err)
	}
	_, err = callGRPC(t, address, "UnaryCall", "proto: wrong.proto, import_paths: ['"+folder+"']", flowtest.Parse(t, `{"payload":{"text":"ab"}}`))
	if err == nil || !strings.Contains(err.Error(), "payload.text: grpc.testing.Payload has no such field") {
		t.Errorf("got %v", err)
	}
}

// The messages of a stream go to the port part, one after the other, or to the client of the process.
func TestGRPCCallStreams(t *testing.T) {
	_, address := servePeer(t, "127.0.0.1:0", false)
	types := grpcTypes(t)
	f := newGRPCFlow(t)
	f.Load("- {kind: grpc_call, name: call, url: 'http://" + address + "', method: grpc.testing.TestService/FullDuplexCall, stream: true, " + types + ", ports: {part: [{name: parts}], out: [{name: end}]}}\n")
	f.Probe("parts").Do(func(node.Process, node.Packet) node.Result { return node.None() })
	payload := flowtest.Parse(t, `[{"payload":{"body":"a"}},{"payload":{"body":"b"}},{"payload":{"body":"c"}}]`)
	if _, _, err := f.Engine().Run(context.Background(), "call", payload); err != nil {
		t.Fatal(err)
	}
	if got := len(f.Probe("parts").Payloads()); got != 3 {
		t.Errorf("got %d parts", got)
	}
	if got := fmt.Sprint(f.Probe("end").Payloads()); !strings.Contains(got, "3") {
		t.Errorf("got %s", got)
	}
	// A gateway: a stream of a service is the stream of a client.
	g := newGRPCFlow(t)
	g.Serve(grpcListener + types + `
  methods: [{method: grpc.testing.TestService/StreamingOutputCall, port: 'out[0]'}]
  ports: {'out[0]': [{name: message}]}
- {kind: snippet, name: message, language: cel, code: body, ports: {out: [{name: call}]}}
- {kind: grpc_call, name: call, url: 'http://` + address + `', method: grpc.testing.TestService/StreamingOutputCall, stream: true, ` + types + `}
`)
	s, err := pb.NewTestServiceClient(dialGRPC(t, g.Address())).StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 3}, {Size: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		m, err := s.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(m.GetPayload().GetBody())
	}
	if n != 8 {
		t.Errorf("got %d bytes", n)
	}
}

// Over TLS, and behind a router. A client of a stream may be silent for longer than one that sends
// a body may.
func TestGRPCServerTLSAndRouter(t *testing.T) {
	cert, key := certificateFiles(t)
	types := grpcTypes(t)
	f := newGRPCFlow(t)
	f.Serve(fmt.Sprintf("- {kind: listener, name: web, host: 127.0.0.1, port: 0, tls: {cert: %q, key: %q}, limits: {header_timeout: 50ms}, ports: {out: [{name: routes, port: in}]}}\n", cert, key) +
		"- {kind: router, name: routes, routes: [{method: POST, path: /grpc.testing.TestService/*, port: out}, {method: GET, path: /hello, port: 'out[1]'}], ports: {out: [{name: rpc, port: in}], 'out[1]': [{name: empty, port: in}]}}\n" +
		"- kind: grpc\n  name: rpc\n  " + types + grpcMethods + emptyNull)
	creds, err := credentials.NewClientTLSFromFile(cert, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(f.Address(), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := pb.NewTestServiceClient(conn).FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || string(m.GetPayload().GetBody()) != "a" {
			t.Fatalf("got %v, %v", m, err)
		}
		<-time.After(200 * time.Millisecond) // the client is silent
	}
	s.CloseSend()
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	call := func(fields string) error {
		g := newGRPCFlow(t)
		defer g.Close()
		g.Load("- {kind: grpc_call, name: call, url: 'https://" + f.Address() + "', method: grpc.testing.TestService/EmptyCall, " + types + ", " + fields + "}\n")
		_, _, err := g.Engine().Run(context.Background(), "call", value.Map())
		return err
	}
	for _, protocol := range []string{"grpc", "grpc-web", "connect"} {
		if err := call(fmt.Sprintf("protocol: %s, tls: {ca: %q}", protocol, cert)); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
	other, _ := certificateFiles(t)
	if err := call(fmt.Sprintf("tls: {ca: %q}", other)); err == nil || node.Describe(err).Code != "tls" {
		t.Errorf("got %v", err)
	}
}

// A node that reads bodies may stand in front: then a call begins when it has come as a whole.
func TestGRPCServerBehindReader(t *testing.T) {
	f := newGRPCFlow(t)
	f.Serve("- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: look, port: in}]}}\n- {kind: log, name: look, ports: {out: [{name: rpc, port: in}]}}\n- kind: grpc\n  name: rpc\n  " +
		grpcTypes(t) + grpcMethods + emptyNull)
	client := pb.NewTestServiceClient(dialGRPC(t, f.Address()))
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		resp, err := client.UnaryCall(user(t.Context()), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("a")}}, options...)
		if err != nil || string(resp.GetPayload().GetBody()) != "a" {
			t.Errorf("got %v, %v", resp, err)
		}
	}
	s, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(&pb.StreamingInputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := s.CloseAndRecv(); err != nil || m.GetAggregatedPayloadSize() != 3 {
		t.Errorf("got %v, %v", m, err)
	}
}

// Limits of calls and messages, each with its code.
func TestGRPCServerLimits(t *testing.T) {
	f := newGRPCFlow(t)
	f.Serve(grpcListener + grpcTypes(t) + strings.Replace(grpcMethods, "limits: {message_bytes: 9MiB}", "limits: {message_bytes: 1KiB, messages: 2, calls: 1}", 1) + emptyNull)
	client := pb.NewTestServiceClient(dialGRPC(t, f.Address()))
	up, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := up.Send(&pb.StreamingInputCallRequest{}); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	_, err = up.CloseAndRecv()
	wantCode(t, err, codes.ResourceExhausted, "more than 2 messages")
	// A bomb: it is small, but not when it is decompressed.
	_, err = client.UnaryCall(user(t.Context()), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1<<20)}}, grpc.UseCompressor(gzip.Name))
	wantCode(t, err, codes.ResourceExhausted, "")
	s, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte("a")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	_, err = client.EmptyCall(t.Context(), &pb.Empty{})
	wantCode(t, err, codes.Unavailable, "too many calls")
	s.CloseSend()
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("got %v", err)
	}
	until(t, "there is room again", func() bool {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		return err == nil
	})
}
