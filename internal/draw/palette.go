package draw

import (
	"fmt"
	"strings"
)

// A Kind is the kind of a thing in a picture, which decides its look.
type Kind uint8

const (
	Plain   Kind = iota // anything else
	Held                // holds the lock; what went well
	Waiting             // waits for the lock; a dashed edge
	Paused              // is not running, or in doubt; hatched
	Failed              // was refused, lost or killed; a cross as a point
	Store               // the lock's store, or what the lock protects
	kinds               // how many there are
)

// class is the kind's name in the style rules.
func (k Kind) class() string { return [kinds]string{"p", "h", "w", "z", "f", "s"}[k] }

// A tint is the colours of one kind: of an area, of its edge and of lines, and of text on the area.
type tint struct{ area, edge, text string }

// A scheme is all colours of a picture.
type scheme struct {
	ground, text, quiet, rule string // background, text on it, lesser text on it, and lines that only guide the eye
	tints                     [kinds]tint
}

var (
	light = scheme{
		ground: "#ffffff", text: "#1f2328", quiet: "#59636e", rule: "#d1d9e0",
		tints: [kinds]tint{
			Plain:   {"#f6f8fa", "#6e7781", "#1f2328"},
			Held:    {"#d2f4df", "#1a7f37", "#0a3f1c"},
			Waiting: {"#eef1f5", "#66707b", "#39424d"},
			Paused:  {"#fff1cc", "#9a6700", "#5c3d00"},
			Failed:  {"#ffe3e0", "#cf222e", "#82101a"},
			Store:   {"#dbeafe", "#0969da", "#0a3069"},
		},
	}
	dark = scheme{
		ground: "#0d1117", text: "#e6edf3", quiet: "#9aa4af", rule: "#30363d",
		tints: [kinds]tint{
			Plain:   {"#1c2128", "#8b949e", "#e6edf3"},
			Held:    {"#10361f", "#3fb950", "#b4f1c4"},
			Waiting: {"#21262d", "#848d97", "#c3ccd5"},
			Paused:  {"#3b2b07", "#d29922", "#f8dc94"},
			Failed:  {"#471a1d", "#f85149", "#ffc9c4"},
			Store:   {"#10294d", "#58a6ff", "#c2dfff"},
		},
	}
)

// fonts are the fonts of the reader's system for its own windows.
const fonts = `system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans","PingFang SC","Microsoft YaHei",sans-serif`

// style returns the rules of a picture for both schemes.
func style(id string, used [kinds]bool) string {
	var b strings.Builder
	rule := func(selector, body string) { fmt.Fprintf(&b, "#%s %s{%s}", id, selector, body) }
	fmt.Fprintf(&b, "#%s{font-family:%s;font-size:%dpx}", id, fonts, body)
	rule(".b", "font-weight:600")
	rule(".n", fmt.Sprintf("font-size:%dpx", small))
	rule(".o", "stroke-width:5px;stroke-linejoin:round;paint-order:stroke")
	rule("path", "fill:none;stroke-width:1.5px")
	rule(".d", "stroke-dasharray:4 3")
	rule(".v", "stroke-width:3px;stroke-linecap:round")
	light.rules(rule, used)
	b.WriteString("\n@media(prefers-color-scheme:dark){")
	dark.rules(rule, used)
	b.WriteString("}")
	return b.String()
}

func (s *scheme) rules(rule func(selector, body string), used [kinds]bool) {
	rule(".g", "fill:"+s.ground+";stroke:"+s.rule)
	rule("text", "fill:"+s.text)
	rule("text.q", "fill:"+s.quiet)
	rule("text.o", "stroke:"+s.ground)
	rule(".r", "stroke:"+s.rule)
	rule("rect.r", "fill:none")
	rule("rect.y", "fill:"+s.rule)
	rule("path.q", "stroke:"+s.quiet)
	for k := range kinds {
		if used[k] {
			c, t := k.class(), s.tints[k]
			rule("rect."+c, "fill:"+t.area+";stroke:"+t.edge)
			rule("text."+c, "fill:"+t.text)
			rule("path."+c, "stroke:"+t.edge)
			rule("path."+c+"x", "fill:"+t.edge)
			rule("rect."+c+"b", "fill:"+t.edge)
		}
	}
}
