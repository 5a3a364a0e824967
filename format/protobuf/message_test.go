package protobuf

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/value"
)

func opener(f fs.FS) func(string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) { return f.Open(name) }
}

func schemaOf(t testing.TB) *Schema {
	t.Helper()
	s, err := Compile([]string{"all.proto", "old.proto"}, opener(os.DirFS("testdata")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What is written in JSON comes back as it was, with what is always there.
func TestRoundTrip(t *testing.T) {
	s := schemaOf(t)
	d := s.Message("test.All")
	check := func(field, in, want string) {
		t.Helper()
		data, err := s.Marshal(d, parse(t, `{"`+field+`":`+in+`}`))
		if err != nil {
			t.Errorf("%s %s: %v", field, in, err)
			return
		}
		v, err := s.Unmarshal(d, data)
		if err != nil {
			t.Errorf("%s %s: %v", field, in, err)
			return
		}
		got, _ := v.Get(field)
		if text, _ := got.MarshalJSON(); string(text) != want {
			t.Errorf("%s %s: got %s, want %s", field, in, text, want)
		}
	}
	check("flag", "true", "true")
	check("i32", "-2147483648", "-2147483648")
	check("i64", "9223372036854775807", "9223372036854775807")
	check("i64", `"9223372036854775807"`, "9223372036854775807")
	check("u64", "18446744073709551615", "18446744073709551615")
	check("u32", "3.0", "3")
	check("real", "0.5", "0.5")
	check("wide", "1e300", "1e+300")
	check("text", `"ä"`, `"ä"`)
	check("data", `"ab"`, `"YWI="`)
	check("color", `"BLUE"`, `"BLUE"`)
	check("color", "7", "7")
	check("maybe", "0", "0")
	check("colors", `["RED",0]`, `["RED","COLOR_UNSPECIFIED"]`)
	check("by_number", `{"-1":"x","7":"y"}`, `{"-1":"x","7":"y"}`)
	check("by_flag", `{"true":"ab"}`, `{"true":"YWI="}`)
	check("b", "5", "5")
	check("c", "{}", "{}")
	check("at", `"2026-01-31T12:00:00.5Z"`, `"2026-01-31T12:00:00.5Z"`)
	check("took", `"1.5s"`, `"1.5s"`)
	check("took", `"315576000000s"`, `"315576000000s"`)
	check("took", `"-9300000000.000000001s"`, `"-9300000000.000000001s"`)
	check("object", `{"a":[1,2.5,"x",null,{"b":true}]}`, `{"a":[1,2.5,"x",null,{"b":true}]}`)
	check("anything", "null", "null")
	check("anything", "[1]", "[1]")
	check("list", "[]", "[]")
	check("mask", `"a,b.c"`, `["a","b.c"]`)
	check("count", "0", "0")
	check("share", "2", "2")
	check("any", `{"@type":"google.rpc.ErrorInfo","reason":"R"}`, `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"R","domain":"","metadata":{}}`)
	check("any", `{"@type":"google.protobuf.Duration","value":"3s"}`, `{"@type":"type.googleapis.com/google.protobuf.Duration","value":"3s"}`)
	check("any", "{}", "{}")
}

func TestEncodeErrors(t *testing.T) {
	s := schemaOf(t)
	d := s.Message("test.All")
	check := func(in, want string) {
		t.Helper()
		_, err := s.Encode(d, parse(t, in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
	check(`[]`, "want a map of the fields of test.All, got list")
	check(`{"children":[{},{"nme":1}]}`, "children[1].nme: test.All has no such field")
	check(`{"userId":1}`, "write user_id")
	check(`{"i32":2147483648}`, "i32: 2147483648 does not fit int32")
	check(`{"u32":-1}`, "u32: -1 does not fit uint32")
	check(`{"i32":1.5}`, "i32: want int32, got float")
	check(`{"i32":"x"}`, "i32: want int32, got string")
	check(`{"color":"GREEN"}`, `color: "GREEN" is not one of test.Color: COLOR_UNSPECIFIED, RED, BLUE`)
	check(`{"a":"x","b":1}`, "b: a is set, too")
	check(`{"by_name":{"x":{"flag":1}}}`, `by_name["x"].flag: want bool`)
	check(`{"by_number":{"x":"y"}}`, `by_number["x"]: want int32`)
	check(`{"at":"today"}`, "at: want a time")
	check(`{"took":"long"}`, "took: want a duration")
	check(`{"any":{"x":1}}`, "any.@type: want the type")
	check(`{"any":{"@type":"no.Such"}}`, "no type type.googleapis.com/no.Such")
	check(`{"real":1e300}`, "does not fit a float")
	check(`{"anything":9007199254740993}`, "a double can hold")
	check(`{"colors":"RED"}`, "colors: want a list, got string")
	check(strings.Repeat(`{"child":`, 200)+"{}"+strings.Repeat("}", 200), "deeper than 100")
}

// Fields with presence are there if they were set, others always; null is not set.
func TestPresence(t *testing.T) {
	s := schemaOf(t)
	v, err := s.Unmarshal(s.Message("test.All"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]bool{"flag": true, "children": true, "by_name": true, "color": true, "maybe": false, "child": false, "a": false, "at": false, "count": false} {
		if _, ok := v.Get(field); ok != want {
			t.Errorf("%s: got %t, want %t", field, ok, want)
		}
	}
	if m, err := s.Encode(s.Message("test.All"), parse(t, `{"maybe":null,"flag":null,"child":null}`)); err != nil || proto.Size(m) != 0 {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestProto2(t *testing.T) {
	s := schemaOf(t)
	d := s.Message("test.old.Old")
	data, err := s.Marshal(d, parse(t, `{"name":"x","item":[{"n":3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Unmarshal(d, data)
	if text, _ := v.MarshalJSON(); err != nil || string(text) != `{"name":"x","size":5,"item":[{"n":3}]}` {
		t.Errorf("got %s, %v", text, err)
	}
	if _, err := s.Encode(d, parse(t, "{}")); err == nil || !strings.Contains(err.Error(), "name: it is required") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Encode(d, parse(t, `{"name":"x","kind":7}`)); err == nil {
		t.Error("a closed enum takes an unknown number")
	}
}

// TestRandom has messages of random bytes of all fields: what is read is written as the same message.
func TestRandom(t *testing.T) {
	s := schemaOf(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		checkSame(t, s, fill(r, s.Message("test.All"), 3))
	}
}

// fill makes a message of random fields.
func fill(r *rand.Rand, d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	one := func(fd protoreflect.FieldDescriptor) protoreflect.Value {
		switch fd.Kind() {
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(r.IntN(2) == 0)
		case protoreflect.StringKind:
			return protoreflect.ValueOfString([]string{"", "a", "ä€", "x\x00y"}[r.IntN(4)])
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte{byte(r.Uint32()), 0xff})
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(5) - 2))
		case protoreflect.MessageKind, protoreflect.GroupKind:
			return protoreflect.ValueOfMessage(fillOne(r, fd.Message(), depth-1))
		case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
			return protoreflect.ValueOfInt32(int32(r.Uint32()))
		case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
			return protoreflect.ValueOfUint32(r.Uint32())
		case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			return protoreflect.ValueOfUint64(r.Uint64())
		case protoreflect.FloatKind:
			return protoreflect.ValueOfFloat32(r.Float32())
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(r.NormFloat64())
		}
		return protoreflect.ValueOfInt64(int64(r.Uint64()))
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if r.IntN(3) > 0 || depth == 0 && fd.Message() != nil {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(3) {
				m.Mutable(fd).Map().Set(one(fd.MapKey()).MapKey(), one(fd.MapValue()))
			}
		case fd.IsList():
			for range r.IntN(3) {
				m.Mutable(fd).List().Append(one(fd))
			}
		default:
			m.Set(fd, one(fd))
		}
	}
	return m
}

// fillOne makes a message that is valid if its type has a form of its own.
func fillOne(r *rand.Rand, d protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	number := func(n protoreflect.FieldNumber) protoreflect.FieldDescriptor { return d.Fields().ByNumber(n) }
	switch d.FullName() {
	case "google.protobuf.Timestamp", "google.protobuf.Duration":
		m.Set(number(1), protoreflect.ValueOfInt64(r.Int64N(maxTimestamp)))
		m.Set(number(2), protoreflect.ValueOfInt32(r.Int32N(1e9)))
	case "google.protobuf.Any":
		m.Set(number(1), protoreflect.ValueOfString([]string{"x/unknown.Type", "type.googleapis.com/google.rpc.ErrorInfo"}[r.IntN(2)]))
	case valueName:
		m.Set(number(protoreflect.FieldNumber(stringField)), protoreflect.ValueOfString("x"))
	default:
		return fill(r, d, depth)
	}
	return m
}

// checkSame checks that the value of a message is the message again.
func checkSame(t testing.TB, s *Schema, m *dynamicpb.Message) {
	t.Helper()
	v, err := s.Decode(m)
	if err != nil {
		t.Fatalf("%v: %v", m, err)
	}
	again, err := s.Encode(m.Descriptor(), v)
	if err != nil {
		t.Fatalf("%v of %v: %v", v, m, err)
	}
	if !proto.Equal(m, again) {
		t.Fatalf("got  %v\nwant %v\nby %v", again, m, v)
	}
}

// FuzzConvert has bytes as they may come: what can be read can be written, and is read as the same.
func FuzzConvert(f *testing.F) {
	s := schemaOf(f)
	d := s.Message("test.All")
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		data, err := proto.Marshal(fill(r, d, 2))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := s.Unmarshal(d, data)
		if err != nil {
			return
		}
		written, err := s.Marshal(d, v)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		again, err := s.Unmarshal(d, written)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		a, _ := v.MarshalJSON()
		b, _ := again.MarshalJSON()
		if string(a) != string(b) {
			t.Fatalf("got %s, want %s", b, a)
		}
	})
}

// FuzzEncode has values as they may come.
func FuzzEncode(f *testing.F) {
	s := schemaOf(f)
	f.Add(`{"flag":true,"any":{"@type":"test.All","i32":1},"took":"-1.5s","at":"2026-01-31T12:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := value.ParseJSON([]byte(text))
		if err != nil {
			return
		}
		m, err := s.Encode(s.Message("test.All"), v)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%s: %T", text, err)
			}
			return
		}
		if _, err := s.Decode(m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func TestCompileErrors(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		_, err := Compile([]string{"a.proto"}, opener(fstest.MapFS{"a.proto": {Data: []byte(text)}, "b.proto": {Data: []byte("syntax = \"proto3\";\nimport \"a.proto\";")}}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check("syntax = \"proto3\";\nmessage A {\n  strin x = 1;\n}", "a.proto:3:3: ")
	check("syntax = \"proto3\";\nmessage A {\n  string x = ;\n}", "a.proto:3:14: ")
	check("syntax = \"proto3\";\nimport \"c.proto\";", "a.proto:2:1: there is no file c.proto in import_paths")
	check("syntax = \"proto3\";\nimport \"b.proto\";", "a.proto: it imports itself: a.proto imports b.proto imports a.proto")
	if _, err := Compile([]string{"x.proto"}, noFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A schema that is read is the one that was written, also without what every program has.
func TestRead(t *testing.T) {
	s := schemaOf(t)
	var set descriptorpb.FileDescriptorSet
	for _, f := range s.FileOf("all.proto") {
		if f.Path() != "google/protobuf/field_mask.proto" {
			set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
		}
	}
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(read.Methods(), " "); got != "test.Tester/Both test.Tester/Down test.Tester/Unary test.Tester/Up" {
		t.Errorf("got %s", got)
	}
	if _, err := Read([]byte("junk")); err == nil {
		t.Error("junk is a schema")
	}
	if _, err := Read(nil); err == nil {
		t.Error("nothing is a schema")
	}
}
