package web

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// lintListeners reports listeners at the same address, as far as it is known before
// templates are rendered. Port 0 is a different free port each time.
func lintListeners(specs []node.WrittenSpec) (list diag.List) {
	type address struct {
		host string
		at   diag.Pos
	}
	ports := make(map[string][]address)
	for _, s := range specs {
		lintProxies(s, &list)
		port := s.Config.Field("port")
		if port == nil || port.Text.Code == "0" || strings.Contains(port.Text.Code, "{{") {
			continue
		}
		host := ""
		if h := s.Config.Field("host"); h != nil {
			host, _ = h.Value.AsString()
		}
		others := ports[port.Text.Code]
		i := slices.IndexFunc(others, func(o address) bool {
			return o.host == host || !strings.Contains(o.host+host, "{{") && (everywhere(o.host) || everywhere(host))
		})
		if i >= 0 {
			list.Add(s.Finding(port.Pos, "port", diag.Errorf(diag.CodeSameAddress, "the node at %s listens on port %s, too", others[i].at, port.Text.Code).
				WithHint("give one of them another port, or send both to one router")))
		}
		ports[port.Text.Code] = append(others, address{host, s.Pos})
	}
	return list
}

// lintProxies warns of proxies that may have any address: each client is one of them, and its
// headers are believed.
func lintProxies(s node.WrittenSpec, list *diag.List) {
	proxies := s.Config.Field("trusted_proxies")
	if proxies == nil {
		return
	}
	for _, item := range append(proxies.Items[:len(proxies.Items):len(proxies.Items)], proxies) {
		if strings.HasSuffix(item.Text.Code, "/0") {
			list.Add(s.Finding(item.Pos, "trusted_proxies", diag.Warningf(diag.CodeInsecure, "each client is a trusted proxy, so it may choose its own address").
				WithHint("name the addresses of the proxies, such as 10.0.0.0/8")))
		}
	}
}

// everywhere reports whether a host stands for all addresses of the machine.
func everywhere(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }
