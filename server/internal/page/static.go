package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed index.html page.css page.js
var files embed.FS

// Policy is the Content-Security-Policy of the page: it runs only its own script, shows only its own style, and asks only its
// own service. [Index] has no script in it, and no style.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// firstMark stands in index.html where the first data go.
const firstMark = "{{first}}"

// Index returns the page with its first data in it. The JSON has no <, > or &, so no text in it ends its element.
func Index(first any) ([]byte, error) {
	data, err := json.Marshal(first)
	if err != nil {
		return nil, err
	}
	index, err := files.ReadFile("index.html")
	if err != nil {
		return nil, err
	}
	return bytes.Replace(index, []byte(firstMark), data, 1), nil
}

// ServeFile answers with the page's script or style. A browser asks each time whether it has changed.
func ServeFile(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	text, err := files.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(string(text)))
}
