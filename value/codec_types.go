package value

import (
	"cmp"
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unsafe"
)

var (
	typeValue           = reflect.TypeFor[Value]()
	typeTime            = reflect.TypeFor[time.Time]()
	typeDuration        = reflect.TypeFor[time.Duration]()
	typeError           = reflect.TypeFor[error]()
	typeAny             = reflect.TypeFor[any]()
	typeTextMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	typeTextUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	typeJSONMarshaler   = reflect.TypeFor[jsonMarshaler]()
	typeJSONUnmarshaler = reflect.TypeFor[jsonUnmarshaler]()
)

// jsonMarshaler and jsonUnmarshaler are the interfaces of encoding/json, which the
// package does not import.
type (
	jsonMarshaler   interface{ MarshalJSON() ([]byte, error) }
	jsonUnmarshaler interface{ UnmarshalJSON([]byte) error }
)

// A tag is a parsed struct tag.
type tag struct {
	name      string
	named     bool // the name is from the tag
	aliases   []string
	omitEmpty bool
	inline    bool
	skip      bool
}

// parseTag parses value:"…", or else json:"…". Options of json without a meaning here
// are ignored.
func parseTag(f reflect.StructField) tag {
	text, own := f.Tag.Lookup("value")
	if !own {
		text = f.Tag.Get("json")
	}
	if text == "-" {
		return tag{skip: true}
	}
	name, options, _ := strings.Cut(text, ",")
	t := tag{name: name, named: name != ""}
	if !t.named {
		t.name = snakeCase(f.Name)
	}
	for option := range strings.SplitSeq(options, ",") {
		alias, isAlias := strings.CutPrefix(option, "alias=")
		switch {
		case option == "omitempty":
			t.omitEmpty = true
		case option == "inline":
			t.inline = true
		case own && isAlias:
			t.aliases = append(t.aliases, alias)
		}
	}
	return t
}

// snakeCase turns a Go name into one of documents: HTTPStatusCode into
// http_status_code.
func snakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && runes[i-1] != '_' &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// A structCodec is a struct type with all its fields, which include the fields of
// embedded and inline structs.
type structCodec struct {
	fields  []fieldCodec
	byName  map[string]int // names and aliases; nil for few
	aliases bool           // some fields have one
	rest    *fieldCodec    // the inline map, or nil
	size    int            // of the fields of a map made of the struct, without the bytes of strings and nested values
	omits   bool           // some fields may be left out
}

// A fieldCodec is one field of a struct.
type fieldCodec struct {
	name     string
	aliases  []string
	kind     op
	omit     bool
	offset   uintptr // in the struct, or in what the last embedded pointer points to
	codec    *codec
	embedded []embeddedPtr // the embedded pointers on the way; mostly none

	tagged bool
	depth  int
	order  []int // index in the struct, from the outermost
}

// An embeddedPtr is an embedded pointer to a struct.
type embeddedPtr struct {
	offset uintptr
	elem   reflect.Type
}

// An op is a type that structs convert without a call.
type op uint8

const (
	opCall op = iota
	opString
	opBool
	opInt
	opInt64
	opInt32
	opFloat64
	opValue
)

func opOf(t reflect.Type) op {
	if t == typeValue {
		return opValue
	}
	if t.PkgPath() != "" { // other types may have methods
		return opCall
	}
	switch t.Kind() {
	case reflect.String:
		return opString
	case reflect.Bool:
		return opBool
	case reflect.Int:
		return opInt
	case reflect.Int64:
		return opInt64
	case reflect.Int32:
		return opInt32
	case reflect.Float64:
		return opFloat64
	}
	return opCall
}

// A level is a struct type whose fields are still to be gathered.
type level struct {
	typ      reflect.Type
	offset   uintptr
	embedded []embeddedPtr
	order    []int
}

// structOf gathers the fields of t. Of fields of one name the shallowest wins,
// then the one whose name is from a tag; if that leaves several, none does.
func (k compiler) structOf(t reflect.Type) *structCodec {
	s := &structCodec{}
	var all []fieldCodec
	visited := map[reflect.Type]bool{t: true}
	for depth, now := 0, []level{{typ: t}}; len(now) > 0; depth++ {
		var next []level
		for _, l := range now {
			for i := range l.typ.NumField() {
				f := l.typ.Field(i)
				k.gather(s, &all, &next, l, f, depth, i)
			}
		}
		now = slices.DeleteFunc(next, func(l level) bool { return visited[l.typ] })
		for _, l := range now {
			visited[l.typ] = true
		}
	}
	slices.SortStableFunc(all, func(a, b fieldCodec) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.depth, b.depth), cmp.Compare(btoi(b.tagged), btoi(a.tagged)))
	})
	for i := 0; i < len(all); {
		same := i + 1
		for same < len(all) && all[same].name == all[i].name {
			same++
		}
		if same == i+1 || all[i+1].depth > all[i].depth || all[i].tagged && !all[i+1].tagged {
			s.fields = append(s.fields, all[i])
		}
		i = same
	}
	slices.SortFunc(s.fields, func(a, b fieldCodec) int { return slices.Compare(a.order, b.order) })
	s.finish()
	return s
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// gather adds a field to all, or the struct that it stands for to next.
func (k compiler) gather(s *structCodec, all *[]fieldCodec, next *[]level, l level, f reflect.StructField, depth, i int) {
	t := parseTag(f)
	elem := f.Type
	if elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	promoted := f.Anonymous && !t.named && elem.Kind() == reflect.Struct && !isLeaf(elem)
	if t.skip || !f.IsExported() && !(f.Anonymous && elem.Kind() == reflect.Struct) {
		return
	}
	order := append(slices.Clone(l.order), i)
	if promoted || t.inline && elem.Kind() == reflect.Struct && !isLeaf(elem) {
		inner := level{typ: elem, offset: l.offset + f.Offset, embedded: l.embedded, order: order}
		if f.Type.Kind() == reflect.Pointer {
			inner.embedded = append(slices.Clone(l.embedded), embeddedPtr{l.offset + f.Offset, elem})
			inner.offset = 0
		}
		*next = append(*next, inner)
		return
	}
	if !f.IsExported() {
		return
	}
	field := fieldCodec{
		name: t.name, aliases: t.aliases, kind: opOf(f.Type), omit: t.omitEmpty, offset: l.offset + f.Offset, embedded: l.embedded,
		codec: k.codec(f.Type), tagged: t.named, depth: depth, order: order,
	}
	if t.inline && f.Type.Kind() == reflect.Map && s.rest == nil && len(l.embedded) == 0 {
		s.rest = &field
		return
	}
	*all = append(*all, field)
}

// isLeaf reports whether a struct type is converted as one value and not by fields.
func isLeaf(t reflect.Type) bool {
	if t == typeValue || t == typeTime {
		return true
	}
	p := reflect.PointerTo(t)
	return p.Implements(typeTextMarshaler) || p.Implements(typeJSONMarshaler)
}

func (s *structCodec) finish() {
	names := map[string]int{}
	for i := range s.fields {
		f := &s.fields[i]
		s.size += nameSize + len(f.name) + valueSize
		s.omits = s.omits || f.omit || f.embedded != nil
		names[f.name] = i
	}
	for i := range s.fields {
		for _, alias := range s.fields[i].aliases {
			if _, taken := names[alias]; !taken {
				names[alias] = i
				s.aliases = true
			}
		}
	}
	if len(names) > indexAbove || s.aliases {
		s.byName = names
	}
}

func (s *structCodec) find(name string) int {
	if s.byName == nil {
		for i := range s.fields {
			if s.fields[i].name == name {
				return i
			}
		}
		return -1
	}
	if i, ok := s.byName[name]; ok {
		return i
	}
	return -1
}

// address returns the address of a field in the struct at p, or nil if an embedded
// pointer on the way is nil.
func (f *fieldCodec) address(p unsafe.Pointer) unsafe.Pointer {
	for _, h := range f.embedded {
		if p = *(*unsafe.Pointer)(unsafe.Add(p, h.offset)); p == nil {
			return nil
		}
	}
	return unsafe.Add(p, f.offset)
}

// addressOrNew is address, but allocates what nil embedded pointers point to.
func (f *fieldCodec) addressOrNew(p unsafe.Pointer) unsafe.Pointer {
	for _, h := range f.embedded {
		slot := (*unsafe.Pointer)(unsafe.Add(p, h.offset))
		if *slot == nil {
			*slot = reflect.New(h.elem).UnsafePointer()
		}
		p = *slot
	}
	return unsafe.Add(p, f.offset)
}
