package main

import (
	"reflect"
	"slices"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
	"github.com/uniflow-labs/uniflow/bench/machine"
)

// figures are all that was found, as batch.json has them.
type figures struct {
	Machine    machine.Facts `json:"machine"`
	Seconds    float64       `json:"seconds"`
	Rate       int           `json:"rate"`
	Reps       int           `json:"reps"`
	Mode       model.Mode    `json:"mode"`
	Notes      []string      `json:"notes,omitempty"`
	Failed     []string      `json:"failed,omitempty"` // arms that could not be measured; Notes say why
	Arms       []figure      `json:"arms"`
	Saturation []figure      `json:"saturation"`
	Ingest     []cost        `json:"ingest"`
	Targets    []target      `json:"targets"`
}

// A figure is an arm: the median of its repetitions, figure by figure, and how
// far they were apart, where there were several.
type figure struct {
	arm.Result
	Min *arm.Result `json:"min,omitempty"`
	Max *arm.Result `json:"max,omitempty"`
}

// least and most return the extremes, also of one repetition.
func (f *figure) least() *arm.Result {
	if f.Min != nil {
		return f.Min
	}
	return &f.Result
}

func (f *figure) most() *arm.Result {
	if f.Max != nil {
		return f.Max
	}
	return &f.Result
}

// merge returns the figure of an arm's repetitions, of which there is one at
// least.
func merge(reps []arm.Result) figure {
	f := figure{Result: reps[0]}
	if len(reps) == 1 {
		return f
	}
	least, most := reps[0], reps[0]
	f.Min, f.Max = &least, &most
	mid, lo, hi := reflect.ValueOf(&f.Result).Elem(), reflect.ValueOf(f.Min).Elem(), reflect.ValueOf(f.Max).Elem()
	for i := range mid.NumField() {
		values := make([]float64, len(reps))
		for j := range reps {
			if v, ok := numeric(reflect.ValueOf(&reps[j]).Elem().Field(i)); ok {
				values[j] = v
			}
		}
		slices.Sort(values)
		set(mid.Field(i), median(values))
		set(lo.Field(i), values[0])
		set(hi.Field(i), values[len(values)-1])
	}
	return f
}

// numeric returns the number in a field, if that is what is there.
func numeric(v reflect.Value) (n float64, ok bool) {
	switch v.Kind() {
	case reflect.Float64:
		return v.Float(), true
	case reflect.Int64:
		return float64(v.Int()), true
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*float64]() && !v.IsNil() {
			return v.Elem().Float(), true
		}
	}
	return 0, false
}

// set sets a field that numeric reads.
func set(v reflect.Value, n float64) {
	if _, ok := numeric(v); !ok {
		return
	}
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(n)
	case reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Pointer:
		v.Set(reflect.ValueOf(&n))
	}
}

// median returns the middle of sorted values, of which there is one at least.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ns returns a cell of the ingest table, or 0.
func (f *figures) ns(design, event string, producers int) float64 {
	for _, c := range f.Ingest {
		if c.Design == design && c.Event == event && c.Producers == producers {
			return c.NS
		}
	}
	return 0
}
