package avro

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/uniflow-labs/uniflow/value"
)

// DecodeFile reads the list of records of a container file, which has the schema that wrote
// them. If reader is not nil, they are read as values of its schema. most limits the bytes of
// the list, and of a block when it is unpacked.
func DecodeFile(data []byte, reader *Codec, most int64) (value.Value, error) {
	opts := []ocf.ReaderOpt{ocf.WithMaxBlockBytes(most), ocf.WithMaxDecompressedBlockBytes(most), ocf.WithDecodeOpts(avro.TaggedUnions())}
	if reader != nil {
		opts = append(opts, ocf.WithReaderSchema(reader.schema))
	}
	r, err := ocf.NewReader(bytes.NewReader(data), opts...)
	if err != nil {
		return value.Value{}, err
	}
	if reader == nil {
		reader = of(r.Schema())
	}
	records, err := reader.readAll(r, most)
	return records, errors.Join(err, r.Close())
}

func (c *Codec) readAll(r *ocf.Reader, most int64) (value.Value, error) {
	var elems []value.Value
	for {
		var decoded any
		err := r.Decode(&decoded)
		if errors.Is(err, io.EOF) {
			return value.List(elems...), nil
		}
		var elem value.Value
		if err == nil {
			elem, err = c.toValue(c.root, decoded, 0)
		}
		if most -= int64(elem.Size()); err == nil && most < 0 {
			err = errors.New("the file is too large when it is unpacked")
		}
		if err != nil {
			return value.Value{}, fmt.Errorf("record %d: %w", len(elems)+1, err)
		}
		elems = append(elems, elem)
	}
}

// EncodeFile writes a list of records as a container file, with its schema. Its blocks are
// compressed with deflate, which every reader knows.
func (c *Codec) EncodeFile(records value.Value) ([]byte, error) {
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, c.schema, ocf.WithCodec(ocf.DeflateCodec(6)))
	if err != nil {
		return nil, err
	}
	for i, rec := range records.Elems() {
		in, err := c.fromValue(c.root, rec, "")
		if err == nil {
			err = w.Encode(in)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("record %d: %w", i+1, err), w.Close())
		}
	}
	err = w.Close()
	return b.Bytes(), err
}
