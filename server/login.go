package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"time"

	"github.com/stilelock/stile/internal/api"
)

// A browser cannot send a token with each request of the page. So a login puts the token into a cookie: encrypted, unreadable
// for scripts, and sent with no request of another site. Only the page takes it. The token in it is checked with each
// request, so a revoked one ends the login.
const (
	loginCookie = "__Host-stile"
	loginFor    = 12 * time.Hour
	maxToken    = 2048 // bytes, since browsers keep cookies of at most 4096

	// aheadMost is how far the clock of another replica may be ahead. If a clock is set back further, viewers log in again.
	aheadMost = time.Minute
)

// logins make cookies with the first key, and read them with any.
type logins []cipher.AEAD

// newLogins returns the logins of the replicas' keys. Without keys it draws one: after a restart of the server its viewers log
// in again.
func newLogins(keys [][]byte) logins {
	if len(keys) == 0 {
		key := make([]byte, minKey)
		_, _ = rand.Read(key) // cannot fail
		keys = [][]byte{key}
	}
	var l logins
	for _, key := range keys {
		block, _ := aes.NewCipher(key)                 // fails for keys of other lengths
		aead, _ := cipher.NewGCMWithRandomNonce(block) // fails for other ciphers
		l = append(l, aead)
	}
	return l
}

// cookie returns the cookie of a login.
func (l logins) cookie(token string) *http.Cookie {
	text := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix()))
	sealed := l[0].Seal(nil, nil, append(text, token...), []byte(loginCookie))
	return cookieOf(base64.RawURLEncoding.EncodeToString(sealed), int(loginFor.Seconds()))
}

func cookieOf(value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: loginCookie, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

// token returns the token in a request's cookie.
func (l logins) token(r *http.Request) (string, bool) {
	c, err := r.Cookie(loginCookie)
	if err != nil {
		return "", false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return "", false
	}
	for _, aead := range l {
		if text, err := aead.Open(nil, nil, sealed, []byte(loginCookie)); err == nil && len(text) >= 8 {
			age := time.Since(time.Unix(int64(binary.BigEndian.Uint64(text)), 0))
			return string(text[8:]), age <= loginFor && age >= -aheadMost
		}
	}
	return "", false
}

// A loginRequest has the token of a viewer.
type loginRequest struct {
	Token string `json:"token"`
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var q loginRequest
	if !read(w, r, &q) {
		return
	}
	if q.Token == "" || len(q.Token) > maxToken {
		s.fail(w, invalid(errors.New("a login needs a token")))
		return
	}
	if _, err := s.identified(withToken(r, q.Token)); err != nil {
		s.unknown(r, err)
		s.fail(w, err)
		return
	}
	http.SetCookie(w, s.people.logins.cookie(q.Token))
	write(w, http.StatusOK, &api.Nothing{})
}

// logout removes the cookie.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if !read(w, r, &api.Nothing{}) {
		return
	}
	http.SetCookie(w, cookieOf("", -1))
	write(w, http.StatusOK, &api.Nothing{})
}
