package format

import (
	_ "github.com/twmb/avro"
	_ "github.com/vmihailenco/msgpack/v5"
)
