package value

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Field is one entry of a map.
type Field struct {
	Name  string
	Value Value
}

// mapData is the body of a map. Its fields are in insertion order and their
// names are unique.
type mapData struct {
	fields []Field
	size   int
	index  atomic.Pointer[map[string]int32] // see find; nil before the first look-up, noIndex after it
	lazy   *lazyFields                      // nil unless the fields are made at first use; immutable

	// spare counts the slots in use of the array behind fields. Maps made from one
	// another by adding a field share the array: the one that increments the count
	// from its own length gets the next slot, the others copy.
	spare    *spareSlots
	ownSpare spareSlots
}

// spareSlots counts from the length of the first map of the array, so that
// making a map needs no atomic store.
type spareSlots struct {
	base int32 // immutable
	more atomic.Int32
}

// claim takes slot n of the array, if it is free.
func (s *spareSlots) claim(n int) bool {
	return s.more.CompareAndSwap(int32(n)-s.base, int32(n)-s.base+1)
}

// indexAbove is the number of fields up to which scanning the names beats
// hashing (BenchmarkMapGet: 8 ns for 12 scanned, 12 ns for 13 hashed).
const indexAbove = 12

// noIndex marks a map of more than indexAbove fields that was searched once. The
// index is made at the second look-up: most maps such as request headers are read
// once or never, and an index is an allocation and a hash of each name.
var noIndex = new(map[string]int32)

// newMapData returns a mapData with n null fields, for small n in one allocation
// instead of two: BenchmarkCodecStructEncode has 8, for 6 maps and 2 lists.
func newMapData(n int) *mapData {
	switch n {
	case 0:
		return new(mapData)
	case 1:
		return mapBlock[[1]Field](n)
	case 2:
		return mapBlock[[2]Field](n)
	case 3:
		return mapBlock[[3]Field](n)
	case 4:
		return mapBlock[[4]Field](n)
	case 5:
		return mapBlock[[5]Field](n)
	case 6:
		return mapBlock[[6]Field](n)
	case 7:
		return mapBlock[[7]Field](n)
	case 8:
		return mapBlock[[8]Field](n)
	case 9, 10:
		return mapBlock[[10]Field](n)
	case 11, 12:
		return mapBlock[[12]Field](n)
	case 13, 14, 15, 16:
		return mapBlock[[16]Field](n)
	}
	return &mapData{fields: make([]Field, n)}
}

func mapBlock[A any](n int) *mapData {
	b := new(struct {
		data   mapData
		fields A
	})
	b.data.fields = unsafe.Slice((*Field)(unsafe.Pointer(&b.fields)), int(unsafe.Sizeof(b.fields)/unsafe.Sizeof(Field{})))[:n]
	return &b.data
}

// seal makes a map of m, whose fields are set. size is the size of the fields, depth
// the depth of the deepest.
func (m *mapData) seal(size int, depth uint16) Value {
	if depth >= MaxDepth {
		return errTooDeep()
	}
	m.size = mapSize + size
	m.spare = &m.ownSpare
	m.ownSpare.base = int32(len(m.fields))
	return Value{ptr: unsafe.Pointer(m), meta: makeMeta(KindMap, depth+1, 0)}
}

// A FieldSource makes the fields of a lazy map. Fields is called at most once, by
// the first goroutine that looks into the map, and must return unique names.
type FieldSource interface {
	Fields() []Field
}

// A FieldFinder is a [FieldSource] that finds some fields for less than it takes to make
// all. Field returns what Fields would have of that name, or is not ok, and Fields is
// called. Any number of goroutines call it at any time, also after Fields.
type FieldFinder interface {
	FieldSource
	Field(name string) (field Value, ok bool)
}

type lazyFields struct {
	once   sync.Once
	source FieldSource
	depth  uint16
}

// Map returns a map of the fields, in that order. If a name occurs twice, the later
// value takes the place of the earlier one. Map takes ownership of the slice.
func Map(fields ...Field) Value {
	for i := range fields {
		if slices.IndexFunc(fields[:i], func(f Field) bool { return f.Name == fields[i].Name }) >= 0 {
			var b MapBuilder
			for _, f := range fields {
				b.Set(f.Name, f.Value)
			}
			return b.Build()
		}
		if i == indexAbove { // a longer one is checked by hashing, not in quadratic time
			var b MapBuilder
			b.Grow(len(fields))
			for _, f := range fields {
				b.Set(f.Name, f.Value)
			}
			return b.Build()
		}
	}
	return mapOf(fields)
}

// UniqueMap is Map for fields whose names are known to be unique, which is not
// checked. Capacity beyond the length is used when a field is added.
func UniqueMap(fields []Field) Value { return mapOf(fields) }

// LazyMap returns a map whose fields are made when they are first read. size is what
// [Value.Size] reports, depth how deep the map nests, itself included. A field that
// nests deeper is replaced by an error.
func LazyMap(source FieldSource, size, depth int) Value { return new(Lazy).Map(source, size, depth) }

// A Lazy is the memory of a lazy map, for a source that has it within itself: one
// allocation then makes both, or many of them. It must not be copied after its first use.
type Lazy struct {
	data mapData
	made lazyFields
}

// Map is [LazyMap] in the memory of l. Called again, it returns the map of the first
// call, for which the arguments must be the same. It is not for concurrent use.
func (l *Lazy) Map(source FieldSource, size, depth int) Value {
	if depth > MaxDepth {
		return errTooDeep()
	}
	depth = max(depth, 1)
	if l.data.lazy == nil {
		l.data.size, l.data.lazy = size, &l.made
		l.made.source, l.made.depth = source, uint16(depth)
	}
	return Value{ptr: unsafe.Pointer(&l.data), meta: makeMeta(KindMap, uint16(depth), 0)}
}

// FieldSourceOf returns the source of a lazy map. Every copy of the map has the
// same one, and a map made from it by a change has none. So the caller that made the
// map can distinguish it from an equal one.
func FieldSourceOf(v Value) (source FieldSource, ok bool) {
	if v.meta.kind() != KindMap {
		return nil, false
	}
	if lazy := (*mapData)(v.ptr).lazy; lazy != nil {
		return lazy.source, true
	}
	return nil, false
}

func mapOf(fields []Field) Value {
	size, depth := 0, uint16(0)
	for i := range fields {
		size += fieldSize(fields[i])
		depth = max(depth, fields[i].Value.meta.depth())
	}
	return (&mapData{fields: fields}).seal(size, depth)
}

const (
	mapSize  = int(unsafe.Sizeof(mapData{}))
	nameSize = int(unsafe.Sizeof(""))
)

func fieldSize(f Field) int { return nameSize + len(f.Name) + f.Value.Size() }

// load returns the fields, making them first if the map is lazy.
func (m *mapData) load() []Field {
	if m.lazy != nil {
		m.lazy.once.Do(m.fill)
	}
	return m.fields
}

// demanded returns the object whose fields are made on demand; nil for other maps.
func (m *mapData) demanded() *jsonObject {
	if m.lazy == nil {
		return nil
	}
	o, _ := m.lazy.source.(*jsonObject)
	return o
}

func (m *mapData) fill() {
	m.fields = m.lazy.source.Fields()
	for i := range m.fields {
		if f := &m.fields[i]; f.Value.meta.depth() >= m.lazy.depth {
			m.fields = slices.Clone(m.fields) // the slice may be shared
			m.fields[i].Value = m.lazy.checked(f.Name, f.Value)
		}
	}
}

// checked returns a field, or an error if it nests deeper than it may.
func (l *lazyFields) checked(name string, field Value) Value {
	if field.meta.depth() >= l.depth {
		return Error(fmt.Errorf("field %q nests deeper than its map", name))
	}
	return field
}

// find returns the index of the field called name, or -1.
func (m *mapData) find(name string) int {
	fields := m.load()
	if len(fields) <= indexAbove {
		return scan(fields, name)
	}
	index := m.index.Load()
	switch index {
	case nil:
		m.index.CompareAndSwap(nil, noIndex)
		return scan(fields, name)
	case noIndex:
		made := make(map[string]int32, len(fields))
		for i := range fields {
			made[fields[i].Name] = int32(i)
		}
		index = &made
		m.index.Store(index) // concurrent calls make equal ones
	}
	if i, ok := (*index)[name]; ok {
		return int(i)
	}
	return -1
}

func scan(fields []Field, name string) int {
	for i := range fields {
		if fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Get returns the field of a map. It is not found if v is not a map.
func (v Value) Get(name string) (field Value, ok bool) {
	if v.meta.kind() != KindMap {
		return Value{}, false
	}
	m := (*mapData)(v.ptr)
	if m.lazy != nil {
		if field, found, known := m.lazyField(name); known {
			return field, found
		}
	}
	if i := m.find(name); i >= 0 {
		return m.fields[i].Value, true
	}
	return Value{}, false
}

// lazyField finds a field of a lazy map without making all of them, if that is known.
func (m *mapData) lazyField(name string) (field Value, found, known bool) {
	if o := m.demanded(); o != nil {
		i := o.find(name)
		if i < 0 {
			return Value{}, false, true
		}
		if field, known = o.field(i); !known {
			field = m.load()[i].Value
		}
		return field, true, true
	}
	if f, ok := m.lazy.source.(FieldFinder); ok {
		if field, ok := f.Field(name); ok {
			return m.lazy.checked(name, field), true, true
		}
	}
	return Value{}, false, false
}

// Fields iterates over the fields of a map in insertion order; over nothing if
// v is not a map.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.meta.kind() != KindMap {
			return
		}
		for _, f := range (*mapData)(v.ptr).load() {
			if !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// With returns a map with the field set: in its place if the map has it, at the
// end otherwise. A v that is not a map counts as an empty one. v itself is
// unchanged. Adding to a map with spare capacity copies no fields.
func (v Value) With(name string, field Value) Value {
	if v.meta.kind() != KindMap {
		return mapOf([]Field{{name, field}})
	}
	m := (*mapData)(v.ptr)
	old := m.load()
	if i := m.find(name); i >= 0 {
		fields := slices.Clone(old)
		fields[i].Value = field
		return mapOf(fields)
	}
	if field.meta.depth() >= MaxDepth {
		return errTooDeep()
	}
	n := len(old)
	added := &mapData{size: m.size + fieldSize(Field{name, field})}
	if m.spare != nil && n < cap(old) && m.spare.claim(n) {
		added.fields = old[:n+1]
		added.spare = m.spare
	} else {
		added.fields = append(make([]Field, 0, n+1+n/4), old...)[:n+1]
		added.spare = &added.ownSpare
		added.ownSpare.base = int32(n + 1)
	}
	added.fields[n] = Field{name, field}
	return Value{ptr: unsafe.Pointer(added), meta: makeMeta(KindMap, max(v.meta.depth(), field.meta.depth()+1), 0)}
}

// Without returns a map without the field. v itself is unchanged, and is returned if
// it has no such field.
func (v Value) Without(name string) Value {
	if v.meta.kind() != KindMap {
		return v
	}
	m := (*mapData)(v.ptr)
	i := m.find(name)
	if i < 0 {
		return v
	}
	fields := make([]Field, 0, len(m.fields)-1)
	return mapOf(append(append(fields, m.fields[:i]...), m.fields[i+1:]...))
}

// A MapBuilder collects the fields of a new map. The zero MapBuilder is empty and
// ready to use. It is not for concurrent use.
type MapBuilder struct {
	fields []Field
	index  map[string]int32 // nil up to indexAbove fields
}

// Grow makes room for n more fields.
func (b *MapBuilder) Grow(n int) { b.fields = slices.Grow(b.fields, n) }

// Len returns the number of fields so far.
func (b *MapBuilder) Len() int { return len(b.fields) }

// Set sets a field, in its place if there is one of that name. It reports
// whether there was.
func (b *MapBuilder) Set(name string, v Value) (replaced bool) {
	if i := b.find(name); i >= 0 {
		b.fields[i].Value = v
		return true
	}
	if b.index != nil {
		b.index[name] = int32(len(b.fields))
	}
	b.fields = append(b.fields, Field{name, v})
	return false
}

func (b *MapBuilder) find(name string) int {
	if b.index == nil {
		if len(b.fields) < indexAbove {
			return slices.IndexFunc(b.fields, func(f Field) bool { return f.Name == name })
		}
		b.index = make(map[string]int32, 2*len(b.fields))
		for i := range b.fields {
			b.index[b.fields[i].Name] = int32(i)
		}
	}
	if i, ok := b.index[name]; ok {
		return int(i)
	}
	return -1
}

// Fields returns the fields and leaves the builder empty. The caller owns the slice.
func (b *MapBuilder) Fields() []Field {
	fields := b.fields
	*b = MapBuilder{}
	return fields
}

// Build returns the map and leaves the builder empty.
func (b *MapBuilder) Build() Value {
	v := mapOf(b.fields)
	*b = MapBuilder{}
	return v
}

// A Shape makes maps that have the same names, each in one allocation. It is immutable.
type Shape struct {
	names []string
	size  int // of the names
}

// NewShape returns the shape of maps with the names, in that order. They must be unique.
func NewShape(names ...string) *Shape {
	s := &Shape{names: slices.Clone(names)}
	for _, name := range names {
		s.size += nameSize + len(name)
	}
	return s
}

// Map returns a map of the values, one for each name.
func (s *Shape) Map(values ...Value) Value {
	return s.fill(newMapData(len(s.names)), values)
}

func (s *Shape) fill(m *mapData, values []Value) Value {
	size, depth := s.size, uint16(0)
	for i, name := range s.names {
		m.fields[i] = Field{name, values[i]}
		size += values[i].Size()
		depth = max(depth, values[i].meta.depth())
	}
	return m.seal(size, depth)
}

// A Slab has memory for maps of a shape, which are allocated several together: keeping
// one of them keeps all. The zero Slab is empty. It is not for concurrent use.
type Slab struct {
	maps   []mapData
	fields []Field
}

// slabMaps is how many maps a Slab allocates together.
const slabMaps = 8

// MapIn is [Shape.Map] in the memory of a slab.
func (s *Shape) MapIn(slab *Slab, values ...Value) Value {
	n := len(s.names)
	if len(slab.maps) == 0 || len(slab.fields) < n {
		slab.maps, slab.fields = make([]mapData, slabMaps), make([]Field, slabMaps*n)
	}
	m := &slab.maps[0]
	m.fields = slab.fields[:n:n]
	slab.maps, slab.fields = slab.maps[1:], slab.fields[n:]
	return s.fill(m, values)
}
