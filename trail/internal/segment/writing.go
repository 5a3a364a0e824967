package segment

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// An imageWriter writes a segment: the sections first, the footer last.
type imageWriter struct {
	o        *output
	rowStart []uint32
	users    int
	hashAt   span
	starts   rowStarts
	rows     int
	idIndex  idIndex
	minTime  int64
	maxTime  int64
	timesRec record
	timesTag byte
	setsRec  record
	columns  []*meta
	blocks   []columnBlocks
}

func newImageWriter(w io.Writer, rows int) *imageWriter { return &imageWriter{o: newOutput(w, rows)} }

func (w *imageWriter) begin(hashes []uint64, rowStart []uint32) {
	w.o.bytes(appendHeader(nil))
	w.rowStart, w.users = rowStart, len(hashes)
	w.rows = int(rowStart[len(hashes)])
	w.hashAt = w.o.section(bytesOf(hashes))
	w.starts.write(w.o, rowStart)
}

func (w *imageWriter) userIDs(at func(dst []byte, ord int) ([]byte, error)) (err error) {
	w.idIndex, err = writeIDs(w.o, w.users, at)
	return err
}

func (w *imageWriter) times(offsets []uint32, base, unit, last int64, err error) error {
	if err != nil {
		return err
	}
	w.minTime, w.maxTime = base, last
	width := int64(bits.Len32(uint32((last - base) / unit)))
	w.timesRec.int(base)
	w.timesRec.uint(uint64(unit))
	g := measureGaps(offsets, w.rowStart, width)
	asGaps, width := chooseTimes(g, w.rows, w.users, width)
	w.putTimes(offsets, width, g, asGaps)
	return nil
}

func (w *imageWriter) putTimes(offsets []uint32, width int64, g gapShape, asGaps bool) {
	w.timesTag = tagTimes
	if asGaps {
		w.timesTag = tagGaps
		writeGaps(w.o, offsets, w.rowStart, g, &w.timesRec)
		return
	}
	w.timesRec.uint(uint64(width))
	w.timesRec.span(pack(w.o, offsets, width))
}

// words writes a column of strings: code i stands for terms[i-1]. Strings that no
// row has are left out, and codes are changed accordingly.
func (w *imageWriter) words(m *meta, terms []string, codes []uint32) error {
	terms = prune(terms, codes)
	m.codes, m.missing = len(terms)+1, missingIn(codes, 0)
	if m.role == roleProperty && m.missing == w.rows {
		return nil
	}
	if err := writeText(w.o, m, terms); err != nil {
		return fmt.Errorf("segment: %s: %w", m.section(), err)
	}
	writeCodes(w.o, m, codes, w.rowStart)
	w.columns = append(w.columns, m)
	w.summarize(m, codes)
	if m.role == roleEvents {
		if at, ok := writeSets(w.o, len(terms), codes, w.rowStart); ok {
			w.setsRec.uint(uint64(len(terms)))
			w.setsRec.uint(uint64(setWidth(len(terms))))
			w.setsRec.span(at)
		}
	}
	return nil
}

func prune(terms []string, codes []uint32) []string {
	to := make([]uint32, len(terms)+1)
	for _, c := range codes {
		to[c] = 1
	}
	kept := terms[:0]
	for i, t := range terms {
		if to[i+1] != 0 {
			kept = append(kept, t)
			to[i+1] = uint32(len(kept))
		}
	}
	to[0] = 0
	if len(kept) == len(terms) {
		return terms
	}
	for i, c := range codes {
		codes[i] = to[c]
	}
	return kept
}

func (w *imageWriter) ids(values []uint64) {
	m := &meta{role: roleIDs, missing: missingIn(values, 0)}
	if m.missing == len(values) {
		return
	}
	writeRaw(w.o, m, values)
	w.columns = append(w.columns, m)
}

// numbers writes a column of integers, numbers or booleans, given raw.
func (w *imageWriter) numbers(m *meta, values []uint64) error {
	m.missing = missingIn(values, RawMissing(m.typ))
	if m.missing == w.rows {
		return nil
	}
	var codes []uint32
	var terms []uint64
	switch m.typ {
	case event.Int:
		if codes = codeInts(m, values); codes == nil {
			codes, terms = codeValues(m, values, compareInts)
		}
	case event.Float:
		if codes = codeFloats(m, values); codes == nil {
			codes, terms = codeValues(m, values, compareFloats)
		}
	case event.Bool:
		m.dict, m.codes = dictBool, 3
		codes = make([]uint32, len(values))
		for i, v := range values {
			codes[i] = uint32(v)
		}
	default:
		return fmt.Errorf("segment: %s: values of no type", m.section())
	}
	if codes == nil {
		writeRaw(w.o, m, values)
		w.columns = append(w.columns, m)
		return nil
	}
	w.dictionary(m, codes, terms)
	return nil
}

// coded writes a column of integers, numbers or booleans, given as codes of a range
// that may be larger than the range of the values.
func (w *imageWriter) coded(m *meta, codes []uint32) {
	m.missing = missingIn(codes, 0)
	if m.missing == w.rows {
		return
	}
	if m.dict == dictRange {
		m.tighten(codes)
	}
	w.dictionary(m, codes, nil)
}

// dictionary writes a dictionary of numbers, if there is or should be one, and the
// codes, which it may change.
func (w *imageWriter) dictionary(m *meta, codes []uint32, terms []uint64) {
	if terms == nil {
		terms = m.replace(codes)
	}
	if terms != nil {
		m.terms = w.o.section(bytesOf(terms))
	}
	writeCodes(w.o, m, codes, w.rowStart)
	w.columns = append(w.columns, m)
	w.summarize(m, codes)
}

func (w *imageWriter) finish() error {
	sums := w.o.pages()
	off := w.o.off
	var summary, users record
	summary.uint(uint64(w.rows))
	summary.uint(uint64(w.users))
	summary.int(w.minTime)
	summary.int(w.maxTime)
	users.span(w.hashAt)
	tag := w.starts.record(&users)
	w.idIndex.record(&users)
	footer := summary.end(tagSummary, nil)
	footer = users.end(tag, footer)
	footer = w.timesRec.end(w.timesTag, footer)
	for _, m := range w.columns {
		var r record
		m.append(&r)
		footer = r.end(tagColumn, footer)
	}
	if w.setsRec != nil {
		footer = w.setsRec.end(tagSets, footer)
	}
	if r := w.blocksRecord(); r != nil {
		footer = r.end(tagBlocks, footer)
	}
	var pages record
	for _, sum := range sums {
		pages = binary.LittleEndian.AppendUint32(pages, sum)
	}
	footer = pages.end(tagPages, footer)
	w.o.bytes(footer)
	w.o.bytes(appendTrailer(nil, off, footer))
	return w.o.err
}
