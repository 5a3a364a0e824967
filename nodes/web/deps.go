package web

import (
	_ "github.com/caddyserver/certmagic"
	_ "github.com/quic-go/quic-go/http3"
)
