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
	stepJSON struct {
		Event string `json:"event"`
		userJSON
	}
	cohortJSON struct {
		Start     string     `json:"start"`
		Size      int64      `json:"size"`
		SizeCI    *interval  `json:"size_ci"`
		Periods   []int64    `json:"periods"`
		PeriodsCI []interval `json:"periods_ci"`
	}
	pathJSON struct {
		Path []string `json:"path"`
		userJSON
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
		Steps   *[]stepJSON        `json:"steps"`
		Groups  []json.RawMessage  `json:"groups"`
		Cohorts *[]cohortJSON      `json:"cohorts"`
		Rows    *[]json.RawMessage `json:"rows"`
		Cohort  *string            `json:"cohort"`
		userJSON
		IDs   []string    `json:"ids"`
		Paths *[]pathJSON `json:"paths"`
		Stats *statsJSON  `json:"stats"`
	}
)

// UnmarshalJSON reads what MarshalJSON wrote, also by the command line, by
// trail_query and of a store elsewhere. What JSON does not say is not known
// afterwards: numbers without a fraction come back as integers, FunnelAnswer.By and
// SegmentAnswer.By are empty if there are no groups, and rows are taken for bucketed
// if their first key is "bucket". Hashes of users are made of their ids.
func (a *Answer) UnmarshalJSON(b []byte) error {
	var in answerJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	var out Answer
	var err error
	kinds := 0
	if in.Steps != nil {
		kinds++
		out.Funnel, err = readFunnel(*in.Steps, in.Groups)
	}
	if in.Cohorts != nil {
		kinds++
		out.Retention, err = readRetention(*in.Cohorts)
	}
	if in.Rows != nil {
		kinds++
		out.Segment, err = readSegment(*in.Rows)
	}
	if in.Cohort != nil {
		kinds++
		out.Cohort = &CohortAnswer{Name: *in.Cohort}
		out.Cohort.Users, err = in.number()
		for _, id := range in.IDs {
			out.Cohort.Found = append(out.Cohort.Found, User{Hash: event.Hash(id), ID: id})
		}
	}
	if in.Paths != nil {
		kinds++
		out.Paths = &PathsAnswer{}
		for _, p := range *in.Paths {
			n, wrong := p.number()
			err = errors.Join(err, wrong)
			out.Paths.Paths = append(out.Paths.Paths, Path{Path: p.Path, Users: n})
		}
	}
	if kinds != 1 || in.Stats == nil {
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

func readSteps(in []stepJSON) ([]FunnelStep, error) {
	var steps []FunnelStep
	var errs []error
	for _, s := range in {
		n, err := s.number()
		errs = append(errs, err)
		steps = append(steps, FunnelStep{Event: s.Event, Users: n})
	}
	return steps, errors.Join(errs...)
}

func readFunnel(in []stepJSON, groups []json.RawMessage) (*FunnelAnswer, error) {
	steps, err := readSteps(in)
	out := &FunnelAnswer{Steps: steps}
	for _, text := range groups {
		keys, values, wrong := inOrder(text)
		if err = errors.Join(err, wrong); err != nil {
			return nil, err
		}
		// The property may be called steps, too: the first key is its.
		if len(keys) != 2 || keys[1] != "steps" {
			return nil, errors.New("a group wants the property and steps")
		}
		out.By = keys[0]
		var list []stepJSON
		g := FunnelGroup{}
		g.Value, err = valueOf(values[0])
		if err == nil {
			err = json.Unmarshal(values[1], &list)
		}
		if err == nil {
			g.Steps, err = readSteps(list)
		}
		out.Groups = append(out.Groups, g)
	}
	return out, err
}

func readRetention(in []cohortJSON) (*RetentionAnswer, error) {
	out := &RetentionAnswer{}
	for _, c := range in {
		size, err := numberOf(c.Size, c.SizeCI)
		if err == nil && c.PeriodsCI != nil && len(c.PeriodsCI) != len(c.Periods) {
			err = fmt.Errorf("%d intervals of %d periods", len(c.PeriodsCI), len(c.Periods))
		}
		cohort := RetentionCohort{Start: c.Start, Size: size}
		for i, n := range c.Periods {
			var ci *interval
			if err == nil && c.PeriodsCI != nil {
				ci = &c.PeriodsCI[i]
			}
			period, wrong := numberOf(n, ci)
			err = errors.Join(err, wrong)
			cohort.Periods = append(cohort.Periods, period)
		}
		if err != nil {
			return nil, err
		}
		out.Cohorts = append(out.Cohorts, cohort)
	}
	return out, nil
}

func readSegment(in []json.RawMessage) (*SegmentAnswer, error) {
	out := &SegmentAnswer{}
	for i, text := range in {
		keys, values, err := inOrder(text)
		if err != nil {
			return nil, err
		}
		row := SegmentRow{}
		n := len(keys)
		if n > 1 && keys[n-1] == "ci" && keys[n-2] == "value" {
			row.Value.Sampled = true
			var ci [2]float64
			if err := json.Unmarshal(values[n-1], &ci); err != nil {
				return nil, err
			}
			row.Value.Low, row.Value.High = ci[0], ci[1]
			n--
		}
		if n == 0 || keys[n-1] != "value" {
			return nil, errors.New("a row wants a value, after the properties")
		}
		v, err := valueOf(values[n-1])
		if err != nil || v.Type() == event.String || v.Type() == event.Bool {
			return nil, fmt.Errorf("the value of a row is %s", values[n-1])
		}
		switch row.Value.Type = v.Type(); v.Type() {
		case event.Int:
			row.Value.Int = v.Int()
		case event.Float:
			row.Value.Float = v.Float()
		}
		keys, values = keys[:n-1], values[:n-1]
		bucketed := len(keys) > 0 && keys[0] == "bucket"
		if bucketed {
			if err := json.Unmarshal(values[0], &row.Bucket); err != nil {
				return nil, err
			}
			keys, values = keys[1:], values[1:]
		}
		if i == 0 {
			out.Bucketed, out.By = bucketed, append(out.By, keys...)
		}
		if bucketed != out.Bucketed || !slices.Equal(keys, out.By) {
			return nil, errors.New("rows have different keys")
		}
		for _, text := range values {
			v, err := valueOf(text)
			if err != nil {
				return nil, err
			}
			row.Group = append(row.Group, v)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// inOrder returns the keys and values of an object as they stand, also of a key that
// is there twice.
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
