//go:build wasip1

// Looks at what a module may see of the system.
package main

import (
	"fmt"
	"os"
	"time"

	"example.com/price/uniflow"
)

var _ = uniflow.Handle(look)

func look(in struct{ Do, Name string }) (string, error) {
	switch in.Do {
	case "env":
		return os.Getenv(in.Name), nil
	case "environ":
		return fmt.Sprint(os.Environ(), len(os.Args)), nil
	case "read":
		data, err := os.ReadFile(in.Name)
		return string(data), err
	case "write":
		return "", os.WriteFile(in.Name, []byte("x"), 0o600)
	case "print":
		fmt.Println("to the output:", in.Name)
		return "", nil
	case "sleep":
		d, err := time.ParseDuration(in.Name)
		if err != nil {
			return "", err
		}
		began := time.Now()
		time.Sleep(d)
		return fmt.Sprint(time.Since(began) >= 0), nil
	case "exit":
		os.Exit(7)
	}
	return "", &uniflow.Error{Message: "unknown", Data: in.Do}
}

func main() {}
