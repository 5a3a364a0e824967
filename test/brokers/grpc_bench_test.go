package brokers_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/uniflow-labs/uniflow/value"
)

// spread calls f b.N times from 32 goroutines.
func spread(b *testing.B, f func() error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	const clients = 32
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range (b.N + i) / clients {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

var benchBody = make([]byte, 300)

// cleartext is HTTP/2 without TLS.
func cleartext() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// BenchmarkGRPCServe has a client of grpc-go that calls the engine, a server of the library that it
// uses with generated types, and a server of grpc-go.
func BenchmarkGRPCServe(b *testing.B) {
	_, plain := servePeer(b, "127.0.0.1:0", false)
	f := newGRPCFlow(b)
	f.Serve(grpcListener + grpcTypes(b) + `
  methods: [{method: grpc.testing.TestService/UnaryCall, port: 'out[0]'}]
  ports: {'out[0]': [{name: unary}]}
- {kind: snippet, name: unary, language: cel, code: '{"payload": body.payload}'}
`)
	handler := connect.NewUnaryHandler("/grpc.testing.TestService/UnaryCall", func(_ context.Context, r *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
		return connect.NewResponse(&pb.SimpleResponse{Payload: r.Msg.GetPayload()}), nil
	})
	library := httptest.NewUnstartedServer(handler)
	library.Config.Protocols = cleartext()
	library.Start()
	defer library.Close()
	for name, address := range map[string]string{"engine": f.Address(), "connect-go": library.Listener.Addr().String(), "grpc-go": plain} {
		b.Run(name, func(b *testing.B) {
			client := pb.NewTestServiceClient(dialGRPC(b, address))
			spread(b, func() error {
				_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{Payload: &pb.Payload{Body: benchBody}})
				return err
			})
		})
	}
}

// BenchmarkGRPCCall has a node, a client of the library that it uses with generated types, and a client of grpc-go, that call a server of grpc-go.
func BenchmarkGRPCCall(b *testing.B) {
	_, address := servePeer(b, "127.0.0.1:0", false)
	b.Run("engine", func(b *testing.B) {
		f := newGRPCFlow(b)
		f.Load("- {kind: grpc_call, name: call, url: 'http://" + address + "', method: grpc.testing.TestService/UnaryCall, " + grpcTypes(b) + "}\n")
		payload := value.Map(value.Field{Name: "payload", Value: value.Map(value.Field{Name: "body", Value: value.Binary(benchBody)})})
		spread(b, func() error {
			_, _, err := f.Engine().Run(context.Background(), "call", payload)
			return err
		})
	})
	b.Run("connect-go", func(b *testing.B) {
		transport := &http.Transport{Protocols: cleartext()}
		defer transport.CloseIdleConnections()
		client := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](&http.Client{Transport: transport}, "http://"+address+"/grpc.testing.TestService/UnaryCall", connect.WithGRPC())
		spread(b, func() error {
			_, err := client.CallUnary(context.Background(), connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: benchBody}}))
			return err
		})
	})
	b.Run("grpc-go", func(b *testing.B) {
		client := pb.NewTestServiceClient(dialGRPC(b, address))
		spread(b, func() error {
			_, err := client.UnaryCall(context.Background(), &pb.SimpleRequest{Payload: &pb.Payload{Body: benchBody}})
			return err
		})
	})
}
