//go:build wasip1

// Prices an order: {"id", "lines": [{"count", "price"}]} becomes {"id", "total", "average"}.
package main

import (
	"errors"

	"example.com/price/uniflow"
)

type order struct {
	ID    string `json:"id"`
	Lines []struct{ Count, Price int64 }
}

type priced struct {
	ID      string `json:"id"`
	Total   int64  `json:"total"`
	Average int64  `json:"average"`
}

var (
	_ = uniflow.Handle(price)
	_ = uniflow.Configure(configure)

	tax int64 // in percent
)

func configure(c struct{ Tax *int64 }) error {
	if c.Tax == nil {
		return errors.New("tax must be a number")
	}
	tax = *c.Tax
	return nil
}

func price(o order) (*priced, error) {
	if len(o.Lines) == 0 {
		return nil, &uniflow.Error{Message: "the order has no lines", Code: "empty", Status: 422, Public: true}
	}
	var total, pieces int64
	for _, l := range o.Lines {
		pieces += l.Count
		total += l.Count * l.Price
	}
	total += total * tax / 100
	return &priced{o.ID, total, total / pieces}, nil
}

func main() {}
