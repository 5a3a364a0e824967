package trail

import (
	"context"
	"fmt"
	"io"

	"github.com/uniflow-labs/uniflow/trail/internal/tabular"
)

// Export writes all events as Parquet: user, time (a timestamp in UTC), event, then
// the properties by name; rows by hash of the user, user, time. It returns how many
// events there were. The progress is in events, of which the total may count some
// that were deleted.
func (s *Store) Export(ctx context.Context, w io.Writer, progress func(rows, total int64)) (rows int64, err error) {
	err = guarded(func() (err error) {
		rows, err = s.export(ctx, w, progress)
		return err
	})
	return rows, err
}

func (s *Store) export(ctx context.Context, w io.Writer, progress func(rows, total int64)) (rows int64, err error) {
	sn, err := s.state.view()
	if err != nil {
		return 0, err
	}
	defer sn.unpin()
	defer func() { err = sn.asDamaged(err) }()
	var total int64
	var all []*cursor
	horizon := sn.kept()
	for _, src := range sn.sources {
		if src.seg == nil {
			return 0, fmt.Errorf("export: %w", src.damage)
		}
		c, err := openCursor(src.seg, sn.schema, sn.tombs.of(&src.entry), horizon)
		if err != nil {
			return 0, fmt.Errorf("export: %w", err)
		}
		total += src.Rows
		all = append(all, c)
	}
	h, err := merged(all)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	var row tabular.Row
	rows, err = tabular.WriteParquet(w, sn.schema, func(yield func(tabular.Row, error) bool) {
		for n := int64(0); len(h) > 0; n++ {
			if n%rowBlock == 0 {
				if err := ctx.Err(); err != nil {
					yield(tabular.Row{}, err)
					return
				}
				if progress != nil {
					progress(n, total)
				}
			}
			c := h[0]
			row.User, row.Time, row.Name = c.user, c.time(), c.name()
			row.Values = c.values(row.Values[:0])
			if !yield(row, nil) {
				return
			}
			if err := h.step(); err != nil {
				yield(tabular.Row{}, err)
				return
			}
		}
	})
	if err != nil {
		return rows, fmt.Errorf("export: %w", err)
	}
	if progress != nil {
		progress(rows, rows)
	}
	return rows, nil
}
