package web

import "github.com/coder/websocket"

// The library of the kinds to come.
var _ = websocket.Accept
