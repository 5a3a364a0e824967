package trail

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A runBuilder makes runs in memory of records, one for each bucket. One goroutine uses
// it.
type runBuilder struct {
	builders map[int64]*bucketBuilder // by bucket, used again
	used     []int64                  // buckets with rows
	twice    []int64                  // by chunk of the records in the builders: events left out as duplicates
	row      row
	values   []event.Value
	seen     seen
}

// built is what a runBuilder has made of records.
type built struct {
	runs  []*source
	marks map[string][]byte // by source
	twice []int64           // by chunk; valid until the next record
}

// errBuild is wrapped by errors about events which the segment format refuses.
var errBuild = errors.New("build a run")

// A bucketBuilder has the rows of a bucket, and knows which chunks they are of.
type bucketBuilder struct {
	*segment.Builder
	begins []chunkRows // ascending
}

// chunkRows says that the rows of a builder from one on are of a chunk.
type chunkRows struct{ row, chunk int }

func (b *bucketBuilder) chunkOf(row uint32) int {
	behind := sort.Search(len(b.begins), func(i int) bool { return b.begins[i].row > int(row) })
	return b.begins[behind-1].chunk
}

// keepBuilders is up to how many buckets builders are used again.
const keepBuilders = 16

func newRunBuilder(log *slog.Logger) *runBuilder {
	return &runBuilder{builders: make(map[int64]*bucketBuilder), seen: seen{log: log}}
}

// build makes a run for each bucket of a record. sn has what the store has.
func (b *runBuilder) build(rec record, schema event.Schema, sn *snapshot) (made built, err error) {
	defer b.reset()
	if made.marks, err = b.add(rec, schema, sn); err != nil {
		return made, err
	}
	made.runs, err = b.seal(rec.commit)
	made.twice = b.twice
	return made, err
}

// add puts the events of a record into builders. It leaves out events that the store has
// already, and events older than its horizon. It returns the marks of the record.
func (b *runBuilder) add(rec record, schema event.Schema, sn *snapshot) (map[string][]byte, error) {
	var marks map[string][]byte
	horizon := sn.kept()
	b.seen.reset(sn.sources, sn.tombs)
	if len(b.used) == 0 {
		b.twice = b.twice[:0]
	}
	for _, chunk := range rec.chunks {
		number := len(b.twice)
		b.twice = append(b.twice, 0)
		r, err := openChunk(chunk)
		if err != nil {
			return nil, err
		}
		if r.mark != nil {
			if marks == nil {
				marks = make(map[string][]byte)
			}
			marks[strings.Clone(r.source)] = slices.Clone(r.mark)
		}
		places := make([]int, len(r.schema)) // in schema, of the chunk's properties
		for i, f := range r.schema {
			places[i] = schema.Index(f.Name)
		}
		if len(b.values) < len(schema) {
			b.values = make([]event.Value, len(schema))
		}
		values := b.values[:len(schema)]
		for r.next(&b.row) {
			if b.row.time < horizon {
				continue
			}
			bucket := bucketOf(b.row.time, sn.width)
			if b.row.id != 0 && b.seen.has(bucket, b.row.user, b.row.time, b.row.id) {
				b.twice[number]++
				continue
			}
			clear(values)
			for i, v := range b.row.values {
				if p := places[i]; p >= 0 {
					values[p], _ = v.As(schema[p].Type) // always ok, because widen made the schema
				}
			}
			b.bucket(bucket, schema, number).Add(b.row.user, b.row.time, b.row.name, b.row.id, values)
		}
		if err := r.err(); err != nil {
			return nil, err
		}
	}
	clear(b.values)
	b.row = row{values: b.row.values[:0]}
	return marks, nil
}

// bucket returns the builder of a bucket for the next row of a chunk.
func (b *runBuilder) bucket(bucket int64, schema event.Schema, chunk int) *bucketBuilder {
	to := b.builders[bucket]
	if to == nil {
		to = &bucketBuilder{Builder: segment.NewBuilder(schema)}
		b.builders[bucket] = to
	}
	if to.Rows() == 0 && !slices.Contains(b.used, bucket) {
		to.Extend(schema)
		b.used = append(b.used, bucket)
	}
	if n := len(to.begins); n == 0 || to.begins[n-1].chunk != chunk {
		to.begins = append(to.begins, chunkRows{to.Rows(), chunk})
	}
	return to
}

// extend widens the schema of the rows that were added.
func (b *runBuilder) extend(schema event.Schema) {
	for _, bucket := range b.used {
		b.builders[bucket].Extend(schema)
	}
}

func (b *runBuilder) rows() int {
	n := 0
	for _, bucket := range b.used {
		n += b.builders[bucket].Rows()
	}
	return n
}

// seal makes runs of the rows that were added.
func (b *runBuilder) seal(commit uint64) ([]*source, error) {
	var runs []*source
	for _, bucket := range b.used {
		from := b.builders[bucket]
		if from.Rows() == 0 {
			continue
		}
		image, err := from.Image()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBuild, err)
		}
		for _, row := range from.Duplicates() {
			b.twice[from.chunkOf(row)]++
		}
		run, err := memorySource(image, bucket, commit, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBuild, err)
		}
		runs = append(runs, run)
	}
	b.used = b.used[:0]
	return runs, nil
}

// reset empties the builders after a commit, whether it went well or not.
func (b *runBuilder) reset() {
	for bucket, from := range b.builders {
		from.Reset()
		from.begins = from.begins[:0]
		if len(b.builders) > keepBuilders || from.Bytes() > maxGroup {
			delete(b.builders, bucket)
		}
	}
	b.used = b.used[:0]
}

func memorySource(image []byte, bucket int64, commit, applied uint64) (*source, error) {
	seg, err := segment.FromBytes("memory", image)
	if err != nil {
		return nil, err
	}
	return &source{entry: entry{Bucket: bucket, Commit: commit, Applied: applied}.of(seg), seg: seg, memory: true}, nil
}
