package format

import (
	"bytes"
	"io"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/records/hostile"
	"github.com/uniflow-labs/uniflow/value"
)

// TestHostile reads files that are made to break readers.
func TestHostile(t *testing.T) {
	for _, file := range hostile.Texts() {
		hostile.Bounded(t, file, func() {
			r := NewReader(bytes.NewReader(file.Data), Options{Name: file.Format, MaxRecord: hostile.MaxRecord}, 0, 1)
			r.End()
			var records []Record
			var err error
			good, bad := 0, 0
			for {
				if records, err = r.Read(records[:0], 100, 1<<20); err != nil {
					break
				}
				for _, rec := range records {
					err := rec.Err
					if err == nil {
						_, err = r.Decoder().Decode(rec.Raw)
					}
					if err == nil {
						good++
					} else {
						bad++
					}
				}
				r.Return()
			}
			if err == io.EOF {
				err = nil
			}
			hostile.Equal(t, file, good, bad, err)
		})
	}
}

// TestHostileParquet reads tables that are made to break readers.
func TestHostileParquet(t *testing.T) {
	for _, file := range hostile.Tables() {
		hostile.Bounded(t, file, func() {
			good := 0
			r, err := NewParquetReader(bytes.NewReader(file.Data), int64(len(file.Data)), 0)
			for err == nil {
				var rows []value.Value
				rows, err = r.Read(100)
				good += len(rows)
			}
			if err == io.EOF {
				err = nil
			}
			hostile.Equal(t, file, good, 0, err)
		})
	}
}
