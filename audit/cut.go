package audit

import (
	"reflect"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// shorten makes a record fit on a line, for any command: one that could not be
// written would be a way around the audit. Each text and each list of it gets limit bytes
// at most. So it goes over all fields by itself, those of tomorrow, too.
func shorten(r sandbox.AuditRecord, limit int) (short sandbox.AuditRecord, was map[string]int) {
	c := cutter{limit: limit, was: map[string]int{}}
	if r.Script != "" { // a part of it could be taken for the whole, and its hash is there
		c.was["script"] = len(r.Script)
		r.Script = ""
	}
	c.fields(reflect.ValueOf(&r).Elem(), "")
	return r, c.was
}

type cutter struct {
	limit int
	was   map[string]int // how long the fields were that it cut, by their names in JSON
}

// fields cuts the fields of a struct. What others see of the record stays as it is.
func (c *cutter) fields(v reflect.Value, above string) {
	for field, is := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		name = above + name
		switch {
		case !field.IsExported(): // of a time
		case is.Kind() == reflect.String:
			if long := is.String(); len(long) > c.limit {
				c.was[name] = len(long)
				is.SetString(cut(long, c.limit))
			}
		case is.Kind() == reflect.Struct:
			c.fields(is, name+".")
		case is.Kind() == reflect.Pointer && !is.IsNil():
			own := reflect.New(is.Type().Elem())
			own.Elem().Set(is.Elem())
			is.Set(own)
			c.fields(own.Elem(), name+".")
		case is.Kind() == reflect.Slice:
			c.list(is, name)
		}
	}
}

// list keeps the beginning of a list of texts. An item counts as a byte more, for its
// quotes and comma.
func (c *cutter) list(v reflect.Value, name string) {
	left, short := c.limit, reflect.MakeSlice(v.Type(), 0, 0)
	for i := range v.Len() {
		text := v.Index(i).String()
		if left -= len(text) + 1; left >= 0 {
			short = reflect.Append(short, v.Index(i))
			continue
		}
		if room := left + len(text); room > 0 {
			last := reflect.New(v.Type().Elem()).Elem()
			last.SetString(cut(text, room))
			short = reflect.Append(short, last)
		}
		c.was[name] = v.Len()
		v.Set(short)
		return
	}
}

// cut keeps a text's beginning, and no partial character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
