// Package parquet reads the columns of Parquet files, page by page.
//
// Read File and Node here, then type.go (what stored values mean) and column.go, which
// reads pages with thrift.go (their headers), unpack.go and bits.go (their encodings).
//
// Invariants: input is not trusted. Any bytes give values or an error, never a panic;
// memory is bounded by one page and one dictionary of each column, at most 1 GiB together.
// It uses parquet-go only for the types of headers, because that library believes what a
// file claims.
package parquet

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go/format"
)

const (
	maxFooter  = 64 << 20 // bytes of a footer
	maxColumns = 1 << 16  // as many as CSV may have
)

// A File is an open Parquet file. Its columns share a budget of memory, so they are for one
// goroutine at a time.
type File struct {
	Root   *Node
	Leaves []Leaf
	Groups []int64 // the rows of each row group

	// OnRead is called with the bytes of each page that is read, unless it is nil.
	OnRead func(n int64)

	src   io.ReaderAt
	size  int64
	meta  format.FileMetaData
	held  int64
	built int64 // bytes of values that were put together for the batch
	unpacker
}

// A Node is a part of a schema.
type Node struct {
	Name               string
	Optional, Repeated bool
	List, Map          bool    // the logical type of a group
	Children           []*Node // nil of a leaf
	Leaf               int     // of File.Leaves: the first one below the node
}

// A Leaf is a column of the schema that holds values.
type Leaf struct {
	Type
	Path           []string // the names on the way to it
	MaxDef, MaxRep int      // definition level of a value that is there, repetition level of the innermost list
}

// Open reads the footer of a file. The caller must call Close, and close src after it.
func Open(src io.ReaderAt, size int64) (*File, error) {
	f := &File{src: src, size: size}
	if err := f.footer(); err != nil {
		return nil, err
	}
	if err := f.schema(); err != nil {
		return nil, err
	}
	total := int64(0)
	for i := range f.meta.RowGroups {
		g := &f.meta.RowGroups[i]
		if len(g.Columns) != len(f.Leaves) {
			return nil, errors.New("the footer is damaged: a row group has not the columns of the schema")
		}
		if total += g.NumRows; g.NumRows < 0 || total < 0 {
			return nil, errors.New("the footer is damaged: there are more rows than can be")
		}
		f.Groups = append(f.Groups, g.NumRows)
	}
	if total != f.meta.NumRows {
		return nil, fmt.Errorf("the footer is damaged: the file has %d rows, and its row groups have %d", f.meta.NumRows, total)
	}
	return f, nil
}

// Close releases what reading pages holds.
func (f *File) Close() { f.close() }

// Batch begins a batch. The prefixes that its texts share with the texts before them take
// no more than maxPage bytes; then reading is an error.
func (f *File) Batch() { f.built = 0 }

func (f *File) footer() error {
	const tail = 8
	if f.size < 4+tail {
		return errors.New("not a Parquet file: it is too short")
	}
	var head [4]byte
	var end [tail]byte
	if err := cmp.Or(f.readAt(head[:], 0), f.readAt(end[:], f.size-tail)); err != nil {
		return err
	}
	if string(head[:]) == "PARE" || string(end[4:]) == "PARE" {
		return errors.New("the file is encrypted")
	}
	if string(head[:]) != "PAR1" {
		return errors.New("not a Parquet file: it does not begin with PAR1")
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("the file is cut off: it does not end with PAR1")
	}
	size := int64(binary.LittleEndian.Uint32(end[:]))
	if size > f.size-4-tail || size > maxFooter {
		return errors.New("the footer is damaged: it is longer than can be")
	}
	b := make([]byte, size)
	if err := f.readAt(b, f.size-tail-size); err != nil {
		return err
	}
	if _, err := unmarshal(b, &f.meta); err != nil {
		return fmt.Errorf("the footer is damaged: %w", err)
	}
	return nil
}

// schema makes the tree of the schema, which is written in depth-first order.
func (f *File) schema() error {
	elements := f.meta.Schema
	if len(elements) == 0 || elements[0].NumChildren.V <= 0 {
		return errors.New("the file has no columns")
	}
	next := 1
	var walk func(n *Node, children int32, leaf Leaf) error
	walk = func(n *Node, children int32, leaf Leaf) error {
		if len(leaf.Path) > 32 {
			return errors.New("the schema is nested more than 32 deep")
		}
		for range children {
			if next >= len(elements) {
				return errors.New("the footer is damaged: the schema ends too early")
			}
			e := &elements[next]
			next++
			child := &Node{Name: e.Name, Optional: e.RepetitionType.V == format.Optional, Repeated: e.RepetitionType.V == format.Repeated, Leaf: len(f.Leaves)}
			n.Children = append(n.Children, child)
			below := leaf
			below.Path = append(leaf.Path[:len(leaf.Path):len(leaf.Path)], e.Name)
			if child.Optional || child.Repeated {
				below.MaxDef++
			}
			if child.Repeated {
				below.MaxRep++
			}
			if e.NumChildren.Valid && e.NumChildren.V > 0 {
				child.List, child.Map = nesting(e)
				if err := walk(child, e.NumChildren.V, below); err != nil {
					return err
				}
				continue
			}
			if below.Type = typeOf(e); len(f.Leaves) == maxColumns {
				return fmt.Errorf("there are more than %d columns", maxColumns)
			}
			f.Leaves = append(f.Leaves, below)
		}
		return nil
	}
	f.Root = new(Node)
	return walk(f.Root, elements[0].NumChildren.V, Leaf{})
}

// Column returns a reader of a leaf, which stands in front of the first row group.
func (f *File) Column(leaf int) *Column {
	return &Column{Leaf: &f.Leaves[leaf], name: strings.Join(f.Leaves[leaf].Path, "."), leaf: leaf, file: f}
}

// readAt fills b; the end of the file is an error.
func (f *File) readAt(b []byte, at int64) error {
	n, err := f.src.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return errors.New("the file ends too early")
	}
	return err
}
