package streams

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/value"
)

const orderSchema = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"], "default": null}]}`

// formats loads two nodes, which encode and decode the body of a message.
func formats(t *testing.T, encode, decode string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, decodeDef(), encodeDef())
	f.Load("- {kind: encode, name: e, field: body, " + encode + "}\n- {kind: decode, name: d, field: body, " + decode + "}")
	return f
}

// both encodes and decodes the body of a message.
func both(t *testing.T, f *flowtest.Flow, body string) string {
	t.Helper()
	v, err := value.ParseJSON([]byte(`{"key": "k", "body": ` + body + `}`))
	if err != nil {
		t.Fatal(err)
	}
	encoded := f.Send("e", v)
	if encoded.IsError() {
		return flowtest.Show(encoded)
	}
	return flowtest.Show(f.Send("d", encoded.Payload))
}

// TestBinaryFormats encodes and decodes the body of a message, which stays what it is.
func TestBinaryFormats(t *testing.T) {
	f := func(encode, decode, body, want string) {
		t.Helper()
		if got := both(t, formats(t, encode, decode), body); !strings.Contains(got, want) {
			t.Errorf("%s, %s of %s: got %s, want %s", encode, decode, body, got, want)
		}
	}
	const same = "format: msgpack"
	f(same, same, `{"a": [1, null]}`, `{"key":"k","body":{"a":[1,null]}}`)
	f(same, "format: avro, schema: "+orderSchema, `{"id": 1}`, "decode avro: ")
	avro := "format: avro, schema: " + orderSchema
	f(avro, avro, `{"id": 7}`, `{"key":"k","body":{"id":7,"item":null}}`)
	f(avro, avro, `{"id": "7"}`, "encode avro: id must be a number, got string")
	f("format: avro, schema: '"+orderSchema+"'", avro, `{"id": 7, "item": "tea"}`, `"item":"tea"`)
	const optional = "format: avro, schema: {type: record, name: N, fields: [{name: a, type: [null, string], default: null}, {name: b, type: {type: array, items: [null, long]}}]}"
	f(optional, optional, `{"b": [1, null]}`, `"body":{"a":null,"b":[1,null]}`)
	f("format: avro_file, schema: "+orderSchema, "format: avro_file", `[{"id": 1}, {"id": 2}]`, `"body":[{"id":1,"item":null},{"id":2,"item":null}]`)
	f("format: avro_file, schema: "+orderSchema, "format: avro_file, schema: {type: record, name: Order, fields: [{name: id, type: double}]}", `{"id": 1}`, `"body":[{"id":1}]`)
	f("format: json", "format: avro_file", `1`, "decode avro_file: ")
	if got := flowtest.Show(formats(t, same, same).Send("d", value.Int(1))); !strings.Contains(got, `the payload has no field \"body\"`) && !strings.Contains(got, `the payload has no field "body"`) {
		t.Errorf("got %s", got)
	}
}

// TestRegistry writes and reads with the schemas of a registry.
func TestRegistry(t *testing.T) {
	f := func(prepare func(*srfake.Registry), encode, decode, body, want string) {
		t.Helper()
		r := srfake.New()
		defer r.Close()
		prepare(r)
		url := "registry: {url: '" + r.URL() + "'"
		got := both(t, formats(t, "format: avro, "+url+", "+encode, "format: avro, "+url+"}"+decode), body)
		got = strings.ReplaceAll(got, r.URL(), "URL")
		if !strings.Contains(got, want) {
			t.Errorf("%s, %s of %s: got %s, want %s", encode, decode, body, got, want)
		}
	}
	registered := func(r *srfake.Registry) {
		if _, _, err := r.RegisterSchema("orders", sr.Schema{Schema: orderSchema}); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*srfake.Registry) {}
	const latest, own = "subject: orders}", ", schema: "
	f(registered, latest, "", `{"id": 7}`, `{"key":"k","body":{"id":7,"item":null}}`)
	f(registered, latest+own+orderSchema, own+`{type: record, name: Order, fields: [{name: id, type: double}]}`, `{"id": 7, "item": "tea"}`, `"body":{"id":7}`)
	f(none, "subject: orders, register: true}"+own+orderSchema, "", `{"id": 7}`, `"body":{"id":7,"item":null}`)
	f(none, latest, "", `{"id": 7}`, `URL: subject "orders": subject "orders" not found (status 404)`)
	f(none, latest+own+orderSchema, "", `{"id": 7}`, `URL: subject "orders": `)
	f(func(r *srfake.Registry) {
		registered(r)
		refs := []sr.SchemaReference{{Name: "Order", Subject: "orders", Version: 1}}
		if _, _, err := r.RegisterSchema("carts", sr.Schema{Schema: `{"type": "record", "name": "Cart", "fields": [{"name": "first", "type": "Order"}]}`, References: refs}); err != nil {
			t.Fatal(err)
		}
	}, "subject: carts}", "", `{"first": {"id": 1}}`, `"body":{"first":{"id":1,"item":null}}`)
	f(func(r *srfake.Registry) {
		if _, _, err := r.RegisterSchema("orders", sr.Schema{Schema: `{"type": "object"}`, Type: sr.TypeJSON}); err != nil {
			t.Fatal(err)
		}
	}, latest, "", `{"id": 7}`, "it is of type JSON, not AVRO")
}

// TestRegistryAway says what is wrong with a registry, or with bytes that are not of one. Each
// schema is asked for once, and what has failed is asked for again.
func TestRegistryAway(t *testing.T) {
	r := srfake.New(srfake.WithAuth("Basic " + "YW5uOmNvcnJlY3Q="))
	defer r.Close()
	id, _, err := r.RegisterSchema("orders", sr.Schema{Schema: orderSchema})
	if err != nil {
		t.Fatal(err)
	}
	message := func(head string) value.Value {
		return value.Map(value.Field{Name: "body", Value: value.Binary([]byte(head + "\x0e\x00"))})
	}
	good := message(fmt.Sprintf("\x00\x00\x00\x00%c", rune(id)))
	const auth = ", auth: {user: ann, password: "
	f := func(registry string, m value.Value, want string) {
		t.Helper()
		flow := formats(t, "format: json", "format: avro, registry: {url: '"+registry+"}")
		got := flowtest.Show(flow.Send("d", m))
		if !strings.Contains(got, want) || strings.Contains(got, "wrong horse") {
			t.Errorf("%s: got %s, want %s", registry, got, want)
		}
	}
	f(r.URL()+"'"+auth+"correct}", good, `"body":{"id":7,"item":null}`)
	f(r.URL()+"'"+auth+"correct}", message("\x00\x00\x00\x00\x63"), "schema 99: schema not found (status 404)")
	f(r.URL()+"'"+auth+"correct}", message("\x01\x00\x00\x00\x01"), "no serializer of a registry has written them")
	f(r.URL()+"'"+auth+"wrong horse}", good, "(status 403)")
	f("http://127.0.0.1:1'", good, "connection refused")

	asked, down := 0, true
	r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		asked++
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down
	})
	flow := formats(t, "format: json", "format: avro, registry: {url: '"+r.URL()+"'"+auth+"correct}}")
	if resp := flow.Send("d", good); !resp.IsError() || !strings.Contains(flowtest.Show(resp), "(status 503)") {
		t.Errorf("got %s", flowtest.Show(resp))
	}
	down = false
	for range 3 {
		if resp := flow.Send("d", good); resp.IsError() {
			t.Errorf("got %s", flowtest.Show(resp))
		}
	}
	if asked != 2 {
		t.Errorf("the registry was asked %d times, want 2", asked)
	}
}

const orderProto = "syntax = \"proto3\";\npackage shop;\nmessage Order { int64 id = 1; string item = 2; Money price = 3; message Money { int64 cents = 1; } }\n"

// TestProtobuf encodes and decodes messages of Protobuf, with types in the document, and with
// those of a registry, which the bytes name.
func TestProtobuf(t *testing.T) {
	types := "format: protobuf, protobuf: {source: " + quoted(orderProto) + "}"
	f := func(encode, decode, body, want string) {
		t.Helper()
		if got := both(t, formats(t, encode, decode), body); !strings.Contains(got, want) {
			t.Errorf("%s of %s: got %s, want %s", encode, body, got, want)
		}
	}
	f(types, types, `{"id": 7, "item": "tea", "price": {"cents": 250}}`, `"body":{"id":7,"item":"tea","price":{"cents":250}}`)
	f(types, types, `{"id": 7, "colour": "red"}`, "encode protobuf: ")
	f(types+", message: shop.Order.Money", types+", message: shop.Order.Money", `{"cents": 1}`, `"body":{"cents":1}`)
	f(types, types+", message: shop.Order.Money", `{"item": "tea"}`, `"body":`)

	r := srfake.New()
	defer r.Close()
	refs := []sr.SchemaReference{{Name: "order.proto", Subject: "orders", Version: 1}}
	for subject, s := range map[string]sr.Schema{
		"orders": {Schema: orderProto, Type: sr.TypeProtobuf},
		"json":   {Schema: `{"type": "object"}`, Type: sr.TypeJSON},
	} {
		if _, _, err := r.RegisterSchema(subject, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.RegisterSchema("carts", sr.Schema{Schema: "syntax = \"proto3\";\nimport \"order.proto\";\nmessage Empty {}\nmessage Cart { repeated shop.Order orders = 1; }\n", Type: sr.TypeProtobuf, References: refs}); err != nil {
		t.Fatal(err)
	}
	registry := func(subject string) string {
		return "format: protobuf, registry: {url: '" + r.URL() + "'" + subject + "}"
	}
	f(registry(", subject: orders"), registry(""), `{"id": 7}`, `"body":{"id":7`)
	f(registry(", subject: orders")+", message: shop.Order.Money", registry(""), `{"cents": 5}`, `"body":{"cents":5}`)
	f(registry(", subject: carts")+", message: Cart", registry(""), `{"orders": [{"id": 1}]}`, `"orders":[{"id":1`)
	f(registry(", subject: carts"), registry(""), `{}`, "which type is meant? There are Cart, Empty")
	f(registry(", subject: carts")+", message: Other", registry(""), `{}`, `there is no type "Other"`)
	f(registry(", subject: json"), registry(""), `{}`, "it is of type JSON, not PROTOBUF")
	f("format: json", registry(""), `1`, "no serializer of a registry has written them")
}
