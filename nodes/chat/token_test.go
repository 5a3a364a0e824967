package chat

import "testing"

// TestChangedSecret has tokens of a secret that is being changed for another one.
func TestChangedSecret(t *testing.T) {
	before, between, after := signer{[][]byte{{1}}}, signer{[][]byte{{2}, {1}}}, signer{[][]byte{{2}}}
	id, token := before.mint("ann")
	f := func(s signer, subject, token string, want bool) {
		t.Helper()
		if got, ok := s.verify(token, subject); ok != want || ok && got != id {
			t.Errorf("got %s %t, want %t", got, ok, want)
		}
	}
	f(between, "ann", token, true)
	f(between, "bob", token, false)
	f(after, "ann", token, false)
	f(after, "ann", between.token(id, "ann"), true)
	f(signer{}, "ann", token, false)
}
