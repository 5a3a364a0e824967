package web

import _ "github.com/quic-go/quic-go/http3"
