package loader

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// childDir names the folder that this process is to be a loader of, instead of
// running tests.
const childDir = "UNIFLOW_TEST_LOADER_DIR"

// childStore makes the child keep events in a store.
const childStore = "UNIFLOW_TEST_LOADER_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

func readFiles(dir string) ([]string, error) { return readEvents(vfs.OS{}, dir) }

// child is a loader that reads commands as lines of standard input, answers
// each with a line, and ends with the input. The first line is its address.
func child(dir string) error {
	if size := os.Getenv("UNIFLOW_TEST_TMPFS"); size != "" {
		if err := mountTmpfs(dir, size); err != nil {
			fmt.Printf("no tmpfs: %v\n", err)
			return nil
		}
	}
	rotate, err := strconv.ParseInt(cmp.Or(os.Getenv("UNIFLOW_TEST_ROTATE"), "16384"), 10, 64)
	if err != nil {
		return err
	}
	opts := Options{Dir: dir, Rotate: rotate, journalBytes: 8 << 10, probeEvery: 20 * time.Millisecond, DedupeKeys: 100_000}
	if os.Getenv(childStore) != "" {
		v, err := openFileStore(storePath(dir))
		if err != nil {
			return err
		}
		opts.NoFiles, opts.Store = true, v
	}
	l, err := Open(opts)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := l.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "limit": // bytes of a file
			n, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				return err
			}
			fmt.Println(limitFiles(n))
		case "fill": // the file system, with a file
			fmt.Println(fill(rest))
		case "remove":
			fmt.Println(os.Remove(rest))
		case "read": // all events, as one line of their number and sizes
			read := readFiles
			if os.Getenv(childStore) != "" {
				read = readStore
			}
			lines, err := read(dir)
			fmt.Println(len(lines), err)
			for _, line := range lines {
				fmt.Println(line)
			}
		}
	}
	if err := server.Close(); err != nil {
		return err
	}
	<-served
	return l.Close()
}
