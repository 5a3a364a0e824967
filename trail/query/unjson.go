package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// The parts of an answer as MarshalJSON writes them.
type (
	interval [2]json.Number // low and high
	userJSON struct {
		Users int64     `json:"users"`
		CI    *interval `json:"ci"`
	}
	statsJSON struct {
		EventsRead int64    `json:"events_read"`
		BytesRead  int64    `json:"bytes_read"`
		Segments   int      `json:"segments"`
		Sample     float64  `json:"sample"`
		ElapsedUS  int64    `json:"elapsed_us"`
		Through    string   `json:"through"`
		Warnings   []string `json:"warnings"`
	}
	answerJSON struct {
		funnelJSON
		retentionJSON
		segmentJSON
		cohortJSON
		pathsJSON
		Stats *statsJSON `json:"stats"`
	}
)

// UnmarshalJSON reads what MarshalJSON, the command line or trail_query wrote. JSON does
// not say everything: numbers without a fraction come back as integers, FunnelAnswer.By
// and SegmentAnswer.By are empty if there are no groups, and rows have buckets if their
// first key is "bucket". Hashes of users are computed from their ids.
func (a *Answer) UnmarshalJSON(b []byte) error {
	var in answerJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	var out Answer
	var err error
	found := 0
	for _, k := range kinds() {
		err = errors.Join(err, k.unmarshal(&in, &out))
		if k.answers(&out) {
			found++
		}
	}
	if found != 1 || in.Stats == nil {
		return errors.New("not an answer: want the keys of one kind (steps, cohorts, rows, cohort or paths), and stats")
	}
	if err == nil {
		out.Stats, err = in.Stats.stats()
	}
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	*a = out
	return nil
}

func (s *statsJSON) stats() (Stats, error) {
	out := Stats{EventsRead: s.EventsRead, BytesRead: s.BytesRead, Segments: s.Segments, Sample: s.Sample, ElapsedUS: s.ElapsedUS, Warnings: s.Warnings}
	if s.Through == "" {
		return out, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s.Through)
	out.Through, out.HasThrough = event.Millis(t), true
	return out, err
}

// number returns a count, of a sample if there is an interval.
func (u *userJSON) number() (Number, error) { return numberOf(u.Users, u.CI) }

func numberOf(n int64, ci *interval) (Number, error) {
	if ci == nil {
		return Number{N: n}, nil
	}
	low, err1 := ci[0].Int64()
	high, err2 := ci[1].Int64()
	return Number{N: n, Low: low, High: high, Sampled: true}, errors.Join(err1, err2)
}

// inOrder returns the keys and values of an object in their order, duplicate keys
// included.
func inOrder(object []byte) (keys []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.Join(fmt.Errorf("want an object, got %.40s", object), err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		keys, values = append(keys, key.(string)), append(values, value) // what stands before a colon is a string
	}
	return keys, values, nil
}

// groupKeys returns the properties of groups whose keys are names. at returns the values
// of a group, and whether it is the group of the rest, which has the key other; it is set here.
// Where all groups have this key alone, it is a property.
func groupKeys(names [][]string, at func(i int) (*[]event.Value, *bool)) (by []string, err error) {
	rest := func(i int) bool {
		values, _ := at(i)
		return len(names[i]) == 1 && names[i][0] == "other" && (*values)[0] == event.BoolOf(true)
	}
	first := slices.IndexFunc(names, func(keys []string) bool { return !slices.Equal(keys, []string{"other"}) })
	if first < 0 {
		first = 0
	}
	for i, keys := range names {
		if slices.Equal(keys, names[first]) {
			if len(keys) > 0 {
				by = keys
			}
			continue
		}
		if !rest(i) {
			return nil, errors.New("groups have different keys")
		}
		values, other := at(i)
		*values, *other = nil, true
	}
	return by, nil
}

// valueOf reads a value of a group or a measure; null and "" are missing.
func valueOf(text []byte) (event.Value, error) {
	switch s := string(text); {
	case s == "null":
		return event.Value{}, nil
	case s == "true", s == "false":
		return event.BoolOf(s == "true"), nil
	case strings.HasPrefix(s, `"`):
		var v string
		err := json.Unmarshal(text, &v)
		return event.StringOf(v), err
	default:
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return event.IntOf(i), nil
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return event.Value{}, fmt.Errorf("want a string, a number or a boolean, got %.40s", s)
		}
		return event.FloatOf(f), nil
	}
}
