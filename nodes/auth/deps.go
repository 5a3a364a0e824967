package auth

import (
	_ "github.com/coreos/go-oidc/v3/oidc"
	_ "github.com/go-jose/go-jose/v4/jwt"
	_ "golang.org/x/crypto/bcrypt"
	_ "golang.org/x/oauth2"
)
