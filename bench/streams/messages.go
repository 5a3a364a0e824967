package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/uniflow-labs/uniflow/value"
)

// shapes are the kinds of messages: orders nest, and log lines are flat, with a long text.
func shapes() []string { return []string{shapeOrder, shapeLog} }

const (
	shapeOrder = "order"
	shapeLog   = "log"
)

// keys is how many different keys the messages have.
const keys = 10_000

// appendMessage writes message i of a shape, about 300 bytes of JSON, and returns its key.
func appendMessage(b []byte, shape string, i int) (message []byte, key string) {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	key = "u" + strconv.Itoa(r.IntN(keys))
	if shape == shapeLog {
		return fmt.Appendf(b, `{"time":"2026-01-02T03:04:05.%06dZ","level":"%s","user":"%s","status":%d,"took":%.3f,"path":"/api/v1/orders/%d","text":"the request was passed on to the service that keeps orders, which answered after it had read %d rows of the table, %d of them from memory; the client may send it again"}`,
			i%1_000_000, []string{"debug", "info", "warn", "error"}[r.IntN(4)], key, 200+r.IntN(300), r.Float64()*100, i, r.IntN(1000), r.IntN(1000)), key
	}
	return fmt.Appendf(b, `{"id":%d,"user":"%s","country":"%s","amount":%.2f,"count":%d,"items":[{"sku":"tea-%d","n":%d},{"sku":"coffee-%d","n":%d},{"sku":"cocoa-%d","n":%d}],"address":{"street":"%d Long Lane","city":"Seoul","zip":"%05d"},"note":"please ring twice, and leave it with the neighbour"}`,
		i, key, []string{"KR", "DE", "US", "FR", "JP"}[r.IntN(5)], r.Float64()*100, 1+r.IntN(9), r.IntN(1000), r.IntN(9), r.IntN(1000), r.IntN(9), r.IntN(1000), r.IntN(9), r.IntN(999), r.IntN(100000)), key
}

// mapCode is the map that is measured, in CEL, over a message with a body.
func mapCode(shape string) string {
	if shape == shapeLog {
		return `{"user": body.user, "path": body.path, "slow": body.took > 50.0, "failed": body.status > 499}`
	}
	return `{"id": body.id, "user": body.user, "total": body.amount * double(body.count), "city": body.address.city}`
}

// A mapper does by hand what mapCode does: it appends the result for a message.
type mapper func(dst, message []byte) ([]byte, error)

// mappers are the forms of the map: with the values of package value, parsed or made on
// demand, and with encoding/json into structs, which reads the needed fields only.
func mappers(shape string) map[string]mapper {
	mapValue, mapStruct := mapOrderValue, mapOrderStruct
	if shape == shapeLog {
		mapValue, mapStruct = mapLogValue, mapLogStruct
	}
	of := func(o value.JSONOptions) mapper {
		return func(dst, message []byte) ([]byte, error) {
			v, err := value.ParseJSONWith(message, o)
			if err != nil {
				return dst, err
			}
			return mapValue(dst, v)
		}
	}
	return map[string]mapper{"value": of(value.JSONOptions{}), onDemand: of(value.JSONOptions{OnDemand: true}), "struct": mapStruct}
}

// onDemand is the fastest form of the map.
const onDemand = "value on demand"

func mapOrderValue(dst []byte, v value.Value) ([]byte, error) {
	id, _ := v.Get("id")
	user, _ := v.Get("user")
	amount, _ := v.Get("amount")
	count, _ := v.Get("count")
	address, _ := v.Get("address")
	city, _ := address.Get("city")
	f, _ := amount.AsFloat()
	n, _ := count.AsInt()
	return orderShape.Map(id, user, value.Float(f*float64(n)), city).AppendJSON(dst)
}

func mapLogValue(dst []byte, v value.Value) ([]byte, error) {
	user, _ := v.Get("user")
	path, _ := v.Get("path")
	took, _ := v.Get("took")
	status, _ := v.Get("status")
	f, _ := took.AsFloat()
	n, _ := status.AsInt()
	return logShape.Map(user, path, value.Bool(f > 50), value.Bool(n > 499)).AppendJSON(dst)
}

var (
	orderShape = value.NewShape("id", "user", "total", "city")
	logShape   = value.NewShape("user", "path", "slow", "failed")
)

func mapOrderStruct(dst, message []byte) ([]byte, error) {
	var in struct {
		ID      int64   `json:"id"`
		User    string  `json:"user"`
		Amount  float64 `json:"amount"`
		Count   int64   `json:"count"`
		Address struct {
			City string `json:"city"`
		} `json:"address"`
	}
	if err := json.Unmarshal(message, &in); err != nil {
		return dst, err
	}
	return appendStruct(dst, struct {
		ID    int64   `json:"id"`
		User  string  `json:"user"`
		Total float64 `json:"total"`
		City  string  `json:"city"`
	}{in.ID, in.User, in.Amount * float64(in.Count), in.Address.City})
}

func mapLogStruct(dst, message []byte) ([]byte, error) {
	var in struct {
		User   string  `json:"user"`
		Path   string  `json:"path"`
		Took   float64 `json:"took"`
		Status int64   `json:"status"`
	}
	if err := json.Unmarshal(message, &in); err != nil {
		return dst, err
	}
	return appendStruct(dst, struct {
		User   string `json:"user"`
		Path   string `json:"path"`
		Slow   bool   `json:"slow"`
		Failed bool   `json:"failed"`
	}{in.User, in.Path, in.Took > 50, in.Status > 499})
}

func appendStruct(dst []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(dst)
	err := json.NewEncoder(b).Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
