package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// A Bulk does the same with many runs, in parts that are asked for one after the other: what has been done is
// known after each, and who asks no more ends it.
type Bulk struct {
	IDs   []string // of up to [api.MaxRuns] runs, or
	Query          // what selects them, with a state, a trigger or a time; After is where the part begins for both
	Rate  int      // how many a second, up to [api.MaxRate]; 0 is 50
	Act   func(context.Context, journal.ID) error
}

// partTime is how long a part goes on to begin actions: who asks sees how far it is.
const partTime = 2 * time.Second

const defaultRate = 50

// Bulk does a part. An error that is about a single run is in the result. Any other one ends the part: it is
// returned if nothing has been done before, else by the next part.
func (v *View) Bulk(ctx context.Context, b Bulk) (part api.RunBulked, err error) {
	part.Refused = []api.RunRefused{}
	if b.Rate == 0 {
		b.Rate = defaultRate
	}
	if b.Rate < 0 || b.Rate > api.MaxRate {
		return part, &QueryError{fmt.Sprintf("rate: got %d", b.Rate), fmt.Sprintf("want 1 to %d runs in a second", api.MaxRate)}
	}
	ids, next, err := v.chosen(ctx, &b)
	if err != nil {
		return part, err
	}
	pace := rate.NewLimiter(rate.Limit(b.Rate), 1)
	began := time.Now()
	for i, id := range ids {
		if i > 0 && time.Since(began) >= partTime {
			next = text(ids[i-1])
			break
		}
		if err := pace.Wait(ctx); err != nil {
			return part, err
		}
		err := b.Act(ctx, id)
		switch {
		case err == nil:
			part.Done++
			continue
		case ends(ctx, err) && i == 0:
			return part, err
		case ends(ctx, err):
			part.Next = text(ids[i-1])
			return part, nil
		case errors.Is(err, journal.ErrNotFound):
			err = errors.New("there is no run with this id")
		}
		part.Refused = append(part.Refused, api.RunRefused{ID: text(id), Message: v.Redact(err.Error())})
	}
	if part.Next = next; next == "" {
		return part, nil
	}
	return part, pace.Wait(ctx) // so that the first of the next part is not too early
}

// ends reports whether an error is not about one run only: nothing can be done with the next one, either.
func ends(ctx context.Context, err error) bool {
	refused, ok := errors.AsType[*node.Error](err)
	return ctx.Err() != nil || errors.Is(err, journal.ErrClosed) || ok && refused.Status == http.StatusServiceUnavailable
}

func text(id journal.ID) string { return uuid.UUID(id).String() }

// chosen returns the runs of a part, and where the one after it begins.
func (v *View) chosen(ctx context.Context, b *Bulk) (ids []journal.ID, next string, err error) {
	filtered := len(b.States) > 0 || b.Trigger != "" || !b.Since.IsZero()
	switch {
	case len(b.IDs) == 0 && !filtered:
		return nil, "", &QueryError{"neither ids nor a filter", "name the runs, or select some by state, trigger or since"}
	case len(b.IDs) > 0 && filtered:
		return nil, "", &QueryError{"ids and a filter do not go together", "leave one out"}
	case len(b.IDs) > api.MaxRuns:
		return nil, "", &QueryError{fmt.Sprintf("ids: got %d", len(b.IDs)), fmt.Sprintf("want 1 to %d, or a filter", api.MaxRuns)}
	case filtered:
		found, next, err := v.find(ctx, b.Query)
		for _, r := range found {
			ids = append(ids, r.ID)
		}
		return ids, next, err
	}
	for _, one := range b.IDs {
		id, err := ParseID(one)
		if err != nil {
			return nil, "", err
		}
		ids = append(ids, id)
	}
	if b.After != "" {
		after, err := ParseID(b.After)
		at := slices.Index(ids, after)
		if err == nil && at < 0 {
			err = &QueryError{"after: " + b.After + " is not among the ids", "write what next said, with the same ids"}
		}
		if err != nil {
			return nil, "", err
		}
		ids = ids[at+1:]
	}
	return ids, "", nil
}
