package trail_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A store is a folder. Append returns when the events are durable; a query sees them
// from then on.
func Example() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := trail.Open(dir, trail.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	start := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	did := func(user, name string, after time.Duration, country string) event.Event {
		return event.Event{
			User: user, Name: name, Time: event.Millis(start.Add(after)),
			Properties: []event.Property{{Name: "country", Value: event.StringOf(country)}},
		}
	}
	err = store.Append(ctx, []event.Event{
		did("ann", "view", 0, "KR"),
		did("bob", "view", time.Minute, "FR"),
		did("ann", "cart", time.Hour, "KR"),
		did("bob", "cart", 48*time.Hour, "FR"),
		did("ann", "purchase", 2*time.Hour, "KR"),
	})
	if err != nil {
		log.Fatal(err)
	}

	q, err := query.Parse("funnel", []byte("funnel: {steps: [view, cart, purchase], within: 24h}"))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := store.Query(ctx, q, trail.QueryOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range answer.Funnel.Steps {
		fmt.Println(step.Event, step.Users.N)
	}
	// Output:
	// view 2
	// cart 1
	// purchase 1
}
