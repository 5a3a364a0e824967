package external_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/external"
	"github.com/uniflow-labs/uniflow/nodes/external/guest"
)

// asGuest makes this binary a program for nodes, which behaves as the variable says.
const asGuest = "UNIFLOW_TEST_GUEST"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "confine" {
		fmt.Fprintln(os.Stderr, external.Confine(os.Args[2]))
		os.Exit(1)
	}
	switch behaviour := os.Getenv(asGuest); behaviour {
	case "":
		leak.Main(m)
	case "echo":
		os.Exit(guest.Main(func(payload json.RawMessage) (any, error) { return payload, nil }))
	case "hostile":
		os.Exit(guest.Main(hostile))
	case "attack":
		os.Exit(guest.Main(attack))
	case "early":
		fmt.Fprintln(os.Stderr, "cannot start: no key")
		os.Exit(3)
	case "deaf": // does not end when its input does, nor when it is asked
		stubborn()
	case "reverse": // answers each two requests in the other order
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			first := lines.Text()
			lines.Scan()
			fmt.Printf("%s\n%s\n", lines.Text(), first)
		}
	default:
		fmt.Fprintln(os.Stderr, "unknown behaviour", behaviour)
		os.Exit(4)
	}
}

func stubborn() {
	child := exec.Command("sleep", "600")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(5)
	}
	ignoreSignals()
	_ = guest.Serve(os.Stdin, os.Stdout, func(json.RawMessage) (any, error) {
		return []int{os.Getpid(), child.Process.Pid}, nil
	})
	select {}
}

// hostile does what its payload, a text, says.
func hostile(payload json.RawMessage) (any, error) {
	var what string
	_ = json.Unmarshal(payload, &what)
	what, arg, _ := strings.Cut(what, " ")
	switch what {
	case "die":
		fmt.Fprintln(os.Stderr, "the shelf broke")
		os.Exit(7)
	case "loop":
		spin()
	case "twice":
		fmt.Println(`{"id":1,"payload":"first"}`)
	case "unknown":
		fmt.Println(`{"id":99999,"payload":"lost"}`)
	case "text":
		fmt.Println("Hello, I am a message for people")
	case "number":
		fmt.Println("17")
	case "misspelled":
		fmt.Println(`{"id":1,"payloda":"lost"}`)
	case "nothing":
		fmt.Println(`{"payload":1}`)
	case "long":
		fmt.Println(strings.Repeat("x", 2<<20))
	case "big":
		return strings.Repeat("y", 8<<20), nil
	case "chatter":
		for i := range 200_000 {
			fmt.Fprintln(os.Stderr, "line", i, strings.Repeat("z", 100))
		}
	case "unfinished":
		fmt.Fprint(os.Stderr, strings.Repeat("w", 4<<20))
	case "close":
		os.Stdout.Close()
		<-time.After(time.Hour)
	case "error":
		return nil, &guest.Error{Message: "no stock", Code: "stock", Status: 409, Data: map[string]int{"left": 2}}
	case "plain":
		return nil, errors.New("it failed")
	case "env":
		return os.Environ(), nil
	case "pid":
		return os.Getpid(), nil
	case "dir":
		return os.Getwd()
	case "wait":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return nil, err
		}
		<-time.After(d)
	}
	return what, nil
}

// attack tries to get what a sandbox must not give.
func attack(payload json.RawMessage) (any, error) {
	var what string
	_ = json.Unmarshal(payload, &what)
	what, arg, _ := strings.Cut(what, " ")
	switch what {
	case "read":
		data, err := os.ReadFile(arg)
		return string(data), err
	case "write":
		return "written", os.WriteFile(arg, []byte("x"), 0o600)
	case "dial":
		c, err := net.DialTimeout("tcp", arg, time.Second)
		if err != nil {
			return nil, err
		}
		return "connected", c.Close()
	case "memory":
		var all [][]byte
		for range 1024 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		return len(all), nil
	case "cpu":
		spin()
	case "files":
		var all []*os.File
		for {
			f, err := os.Open("/dev/null")
			if err != nil {
				return nil, fmt.Errorf("after %d: %w", len(all), err)
			}
			all = append(all, f)
		}
	case "child":
		out, err := exec.Command("echo", "alive").CombinedOutput()
		return string(out), err
	case "escape":
		return escape()
	case "kill":
		return killOther(arg)
	}
	return what, nil
}

// spin never returns.
func spin() {
	for n := uint64(0); n < math.MaxUint64; n++ {
		runtime.KeepAlive(n)
	}
}
