package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A table is a Parquet file with two events, of three columns with a page each.
type table struct {
	meta    format.FileMetaData
	headers [3]format.PageHeader
	bodies  [3][]byte
}

func newTable() *table {
	t := &table{bodies: [3][]byte{
		[]byte("\x01\x00\x00\x00a\x01\x00\x00\x00b"),
		binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1000), 2000),
		[]byte("\x01\x00\x00\x00v\x01\x00\x00\x00v"),
	}}
	t.meta = format.FileMetaData{Version: 1, NumRows: 2, Schema: []format.SchemaElement{{Name: "root", NumChildren: thrift.New[int32](3)}}, RowGroups: []format.RowGroup{{NumRows: 2}}}
	for i, name := range []string{"user_id", "time", "event"} {
		typ := format.ByteArray
		if i == 1 {
			typ = format.Int64
		}
		size := int32(len(t.bodies[i]))
		t.headers[i] = format.PageHeader{Type: format.DataPage, UncompressedPageSize: size, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: 2, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}
		t.meta.Schema = append(t.meta.Schema, format.SchemaElement{Name: name, Type: thrift.New(typ), RepetitionType: thrift.New(format.Required)})
		t.meta.RowGroups[0].Columns = append(t.meta.RowGroups[0].Columns, format.ColumnChunk{MetaData: format.ColumnMetaData{Type: typ, PathInSchema: []string{name}, NumValues: 2}})
	}
	return t
}

// bytes returns the file, of which edit may change the footer.
func (t *table) bytes(edit func(*format.FileMetaData)) []byte {
	var file bytes.Buffer
	marshal := func(v any) {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			panic(err)
		}
		file.Write(b)
	}
	file.WriteString("PAR1")
	for i := range t.bodies {
		chunk := &t.meta.RowGroups[0].Columns[i].MetaData
		chunk.DataPageOffset = int64(file.Len())
		if t.headers[i].CompressedPageSize == 0 {
			t.headers[i].CompressedPageSize = int32(len(t.bodies[i]))
		}
		marshal(&t.headers[i])
		file.Write(t.bodies[i])
		chunk.TotalCompressedSize = int64(file.Len()) - chunk.DataPageOffset
	}
	if edit != nil {
		edit(&t.meta)
	}
	at := file.Len()
	marshal(&t.meta)
	return append(binary.LittleEndian.AppendUint32(file.Bytes(), uint32(file.Len()-at)), "PAR1"...)
}

// Tables returns files of Parquet. All but the first are damaged.
func Tables() []File {
	sound := newTable().bytes(nil)
	files := []File{{Name: "a sound file", Format: "parquet", Data: sound, Good: 2}}
	add := func(name string, data []byte) {
		files = append(files, File{Name: name, Format: "parquet", Data: data, Fails: true})
	}
	footer := func(name string, edit func(*format.FileMetaData)) { add(name, newTable().bytes(edit)) }
	chunk := func(name string, edit func(*format.ColumnMetaData)) {
		footer(name, func(m *format.FileMetaData) { edit(&m.RowGroups[0].Columns[0].MetaData) })
	}
	page := func(name string, edit func(t *table, h *format.PageHeader)) {
		t := newTable()
		edit(t, &t.headers[0])
		add(name, t.bytes(nil))
	}
	packed := func(name string, codec format.CompressionCodec, size int32, body []byte) {
		t := newTable()
		t.bodies[0], t.headers[0].UncompressedPageSize = body, size
		t.meta.RowGroups[0].Columns[0].MetaData.Codec = codec
		add(name, t.bytes(nil))
	}
	raw := func(name string, footer []byte) {
		b := append([]byte("PAR1"), footer...)
		add(name, append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...))
	}
	add("nothing", nil)
	add("a mark alone", []byte("PAR1"))
	add("text", []byte(strings.Repeat("user_id,time,event\n", 10)))
	add("cut off", sound[:len(sound)-1])
	add("half of a file", sound[:len(sound)/2])
	add("no beginning", append([]byte("XXXX"), sound[4:]...))
	add("an encrypted footer", append(slices.Clone(sound[:len(sound)-4]), "PARE"...))
	add("a footer longer than the file", append(slices.Clone(sound[:len(sound)-8]), "\xff\xff\xff\x7fPAR1"...))
	raw("a footer that is empty", nil)
	raw("a footer with a list of 2^31 structs", append([]byte{0x15, 2, 0x19, 0xfc}, binary.AppendUvarint(nil, 1<<31-1)...))
	raw("a footer with a list of empty structs", append(append([]byte{0x15, 2, 0x19, 0xfc}, binary.AppendUvarint(nil, 1<<20)...), make([]byte, 1<<20)...))
	raw("a footer with many small structs", append(append([]byte{0x15, 2, 0x19, 0xfc}, binary.AppendUvarint(nil, 9<<18)...), bytes.Repeat([]byte{0x15, 2, 0}, 9<<18)...))
	raw("a footer of structs in structs", bytes.Repeat([]byte{0x1c}, 1<<20))
	raw("a footer with an endless number", append([]byte{0x15}, bytes.Repeat([]byte{0xff}, 1<<20)...))

	footer("no schema", func(m *format.FileMetaData) { m.Schema = nil })
	footer("a schema of 2^31 columns", func(m *format.FileMetaData) { m.Schema[0].NumChildren.V = 1<<31 - 1 })
	footer("a schema that is nested deep", func(m *format.FileMetaData) {
		m.Schema = slices.Repeat([]format.SchemaElement{{Name: "a", NumChildren: thrift.New[int32](1)}}, 1000)
	})
	footer("a column twice", func(m *format.FileMetaData) { m.Schema[3].Name = "user_id" })
	footer("a row group without columns", func(m *format.FileMetaData) { m.RowGroups[0].Columns = nil })
	footer("fewer rows than none", func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = -1, -1 })
	footer("2^62 rows", func(m *format.FileMetaData) { m.NumRows, m.RowGroups[0].NumRows = 1<<62, 1<<62 })
	footer("more rows than a number", func(m *format.FileMetaData) {
		m.RowGroups[0].NumRows = 1 << 62
		m.RowGroups = slices.Repeat(m.RowGroups, 3)
	})
	footer("other columns than the chunks", func(m *format.FileMetaData) { m.Schema[1].Type.V = format.Int96 })
	footer("values of 2^31 bytes", func(m *format.FileMetaData) {
		m.Schema[1].Type.V, m.Schema[1].TypeLength = format.FixedLenByteArray, thrift.New[int32](1<<31-1)
		m.RowGroups[0].Columns[0].MetaData.Type = format.FixedLenByteArray
	})
	footer("values of no bytes", func(m *format.FileMetaData) {
		m.Schema[1].Type.V = format.FixedLenByteArray
		m.RowGroups[0].Columns[0].MetaData.Type = format.FixedLenByteArray
	})
	footer("columns in another file", func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].FilePath = "/etc/passwd" })

	chunk("a chunk of 2^62 bytes", func(m *format.ColumnMetaData) { m.TotalCompressedSize = 1 << 62 })
	chunk("a chunk of fewer bytes than none", func(m *format.ColumnMetaData) { m.TotalCompressedSize = -1 })
	chunk("a chunk behind the file", func(m *format.ColumnMetaData) { m.DataPageOffset = 1 << 62 })
	chunk("a chunk in front of the file", func(m *format.ColumnMetaData) { m.DataPageOffset = -1 << 62 })
	chunk("a codec that is not known", func(m *format.ColumnMetaData) { m.Codec = 99 })

	page("a page of 2^31 bytes", func(_ *table, h *format.PageHeader) { h.UncompressedPageSize = 1<<31 - 1 })
	page("a page that is longer than its chunk", func(_ *table, h *format.PageHeader) { h.CompressedPageSize = 1 << 20 })
	page("a page of fewer bytes than none", func(_ *table, h *format.PageHeader) { h.UncompressedPageSize, h.CompressedPageSize = -1, -1 })
	page("a page of 2^31 values", func(_ *table, h *format.PageHeader) { h.DataPageHeader.V.NumValues = 1<<31 - 1 })
	page("a page without a header of its kind", func(_ *table, h *format.PageHeader) { h.DataPageHeader.Valid = false })
	page("a wrong checksum", func(_ *table, h *format.PageHeader) { h.CRC = 1 })
	page("a text of 2^32 bytes", func(t *table, _ *format.PageHeader) { copy(t.bodies[0], "\xff\xff\xff\xff") })
	page("codes without a dictionary", func(_ *table, h *format.PageHeader) { h.DataPageHeader.V.Encoding = format.RLEDictionary })
	page("a dictionary of 2^31 entries", func(_ *table, h *format.PageHeader) {
		h.Type, h.DictionaryPageHeader = format.DictionaryPage, thrift.New(format.DictionaryPageHeader{NumValues: 1<<31 - 1})
	})
	page("a list of 2^30 nulls", func(t *table, h *format.PageHeader) {
		levels := func(first, others byte) []byte {
			b := append(binary.AppendUvarint([]byte{2, first}, (1<<30-1)<<1), others)
			return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
		}
		t.meta.Schema[1].RepetitionType.V = format.Repeated
		t.meta.RowGroups[0].Columns[0].MetaData.NumValues = 1 << 30
		t.bodies[0] = slices.Concat(levels(0, 1), levels(1, 0), t.bodies[0])
		h.DataPageHeader.V.NumValues, h.UncompressedPageSize = 1<<30, int32(len(t.bodies[0]))
	})
	files[len(files)-1].Room = 128 << 20 // readers of rows give up after a million values
	for _, enc := range []format.Encoding{format.DeltaByteArray, format.DeltaLengthByteArray, format.DeltaBinaryPacked, format.ByteStreamSplit, format.BitPacked, 99} {
		page("values that are not encoded as "+enc.String(), func(_ *table, h *format.PageHeader) { h.DataPageHeader.V.Encoding = enc })
	}

	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 16<<20)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	huge := binary.AppendUvarint(nil, 200<<20)
	packed("gzip of 16 MiB that says it is 10 bytes", format.Gzip, 10, bomb.Bytes())
	packed("Snappy that says it is 200 MiB", format.Snappy, 200<<20, huge)
	packed("LZ4 that says it is 200 MiB", format.Lz4Raw, 200<<20, []byte{0xff, 1, 2, 3, 4})
	for _, codec := range []format.CompressionCodec{format.Gzip, format.Snappy, format.Brotli, format.Zstd, format.Lz4Raw, format.LZO} {
		packed("nonsense in place of "+codec.String(), codec, 10, []byte("0123456789"))
	}
	return files
}
