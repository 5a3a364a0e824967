package value_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// The benchmarks of conversion measure what a node does with a payload: a
// struct of 12 fields with a list of structs in it, as an order of a shop, and
// the same as a Go map. Each has a twin that does the same by plain reflection.

type order struct {
	ID         string
	CustomerID int64
	Status     string
	Paid       bool
	Total      float64
	Currency   string
	CreatedAt  time.Time
	Timeout    time.Duration
	Items      []item
	Tags       []string
	Address    *address
	Note       string `value:"note,omitempty"`
}

type item struct {
	SKU      string `json:"sku"`
	Name     string `json:"name"`
	Quantity int    `json:"quantity"`
	Price    float64
	Gift     bool `json:"gift,omitempty"`
}

type address struct {
	Street, City, Zip, Country string
}

func sampleOrder() order {
	o := order{
		ID: "ord-000173", CustomerID: 981, Status: "open", Paid: true, Total: 129.95, Currency: "EUR",
		CreatedAt: time.Date(2024, 5, 17, 10, 30, 0, 0, time.UTC), Timeout: 90 * time.Second,
		Tags: []string{"new", "express", "gift"}, Address: &address{"12 Long Lane", "Springfield", "12345", "US"},
	}
	for i := range 4 {
		o.Items = append(o.Items, item{SKU: fmt.Sprint("sku-", i), Name: "A thing of beauty", Quantity: i + 1, Price: 9.95})
	}
	return o
}

func sampleMap() map[string]any {
	return map[string]any{
		"id": "ord-000173", "customer_id": int64(981), "status": "open", "paid": true, "total": 129.95,
		"tags":    []any{"new", "express", "gift"},
		"address": map[string]any{"street": "12 Long Lane", "city": "Springfield", "zip": "12345"},
	}
}

func BenchmarkCodecStructEncode(b *testing.B) {
	o := sampleOrder()
	b.Run("compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := value.Encode(&o); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reflectEncode(&o); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCodecStructDecode(b *testing.B) {
	o := sampleOrder()
	v, err := value.Encode(&o)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into order
			if err := value.Decode(v, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into order
			if err := reflectDecode(v, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCodecMapEncode(b *testing.B) {
	m := sampleMap()
	b.Run("compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := value.Encode(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reflectEncode(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCodecMapDecode(b *testing.B) {
	v, err := value.Encode(sampleMap())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into map[string]any
			if err := value.Decode(v, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reflect", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var into map[string]any
			if err := reflectDecode(v, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// apiBody is a typical answer of an API: 1.4 KB, nested, some numbers, some
// text that is not ASCII, few escapes.
var apiBody = []byte(`{"id":"ord-000173","customer":{"id":981,"name":"Zoë Müller","email":"zoe@example.com","verified":true,` +
	`"address":{"street":"12 Long Lane","city":"Springfield","zip":"12345","country":"US","geo":{"lat":37.208957,"lon":-93.292299}}},` +
	`"status":"open","paid":true,"total":129.95,"currency":"EUR","created_at":"2024-05-17T10:30:00Z","note":null,"tags":["new","express","gift"],` +
	`"items":[` + strings.Repeat(`{"sku":"sku-1","name":"A thing of beauty","quantity":3,"price":9.95,"options":{"color":"green","size":"XL"},"stock":[12,0,7]},`, 6) +
	`{"sku":"sku-7","name":"Says \"hello\"\nand more","quantity":1,"price":1e2,"options":{},"stock":[]}],` +
	`"links":{"self":"https://shop.example.com/orders/173","next":"https://shop.example.com/orders/174"},"version":17}`)

func BenchmarkJSONRead(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(apiBody)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := value.ParseJSON(apiBody); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(apiBody)))
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal(apiBody, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkJSONWrite(b *testing.B) {
	v, err := value.ParseJSON(apiBody)
	if err != nil {
		b.Fatal(err)
	}
	plain := v.Go()
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(apiBody)))
		b.ReportAllocs()
		for b.Loop() { // a new buffer each time, as json.Marshal does
			if _, err := v.AppendJSON(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(apiBody)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(plain); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMapGet decides indexAbove: a look-up of each field in turn, in maps of
// several sizes with names as APIs have them, after the index is made.
func BenchmarkMapGet(b *testing.B) {
	names := strings.Fields("id name email status created_at total currency items customer_id address note paid version links tags timeout")
	for _, n := range []int{4, 8, 12, 13, 16} {
		var m value.MapBuilder
		for _, name := range names[:n] {
			m.Set(name, value.Null())
		}
		v := m.Build()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				v.Get(names[i])
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

func BenchmarkMapWith(b *testing.B) {
	base, err := value.ParseJSON(apiBody)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		base.With("status", value.String("closed"))
	}
}
