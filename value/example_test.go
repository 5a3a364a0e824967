package value_test

import (
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

func ExampleEncode() {
	type job struct {
		Name    string
		Retries int           `value:"attempts"`
		Timeout time.Duration `value:",omitempty"`
		Secret  string        `value:"-"`
	}
	v, err := value.Encode(job{Name: "mail", Retries: 3, Timeout: 5 * time.Second})
	fmt.Println(v, err)
	_, err = value.Encode(map[string]any{"jobs": []any{job{}, make(chan int)}})
	fmt.Println(err)
	// Output:
	// {"name":"mail","attempts":3,"timeout":"5s"} <nil>
	// jobs[1]: cannot turn chan int into a value
}

func ExampleDecode() {
	v, err := value.ParseJSON([]byte(`{"port": "8000", "timeout": "1m30s", "accept": "text/html", "debug": true}`))
	if err != nil {
		fmt.Println(err)
	}
	into := struct {
		Host    string
		Port    int
		Timeout time.Duration
		Accept  []string
		Rest    map[string]value.Value `value:",inline"`
	}{Host: "localhost"}
	if err := value.Decode(v, &into); err != nil {
		fmt.Println(err)
	}
	fmt.Println(into.Host, into.Port, into.Timeout, into.Accept, into.Rest["debug"])
	fmt.Println(value.Decode(value.String("many"), &into.Port))
	// Output:
	// localhost 8000 1m30s [text/html] true
	// cannot turn string "many" into int
}

func ExampleValue_With() {
	v, err := value.ParseJSON([]byte(`{"user": "ann", "roles": ["admin"]}`))
	if err != nil {
		fmt.Println(err)
	}
	roles, _ := v.Get("roles")
	fmt.Println(v.With("roles", roles.Append(value.String("editor"))))
	fmt.Println(v)
	// Output:
	// {"user":"ann","roles":["admin","editor"]}
	// {"user":"ann","roles":["admin"]}
}

func ExampleMapBuilder() {
	var b value.MapBuilder
	b.Set("status", value.Int(200))
	b.Set("body", value.List(value.Null(), value.Float(1)))
	b.Set("status", value.Int(404))
	fmt.Println(b.Build())
	// Output: {"status":404,"body":[null,1]}
}
