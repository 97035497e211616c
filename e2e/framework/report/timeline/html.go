package timeline

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed chart.js
	chartJS string
	//go:embed page.js
	pageJS string
)

// page is parsed once: what is wrong with it is found by any test.
var page = template.Must(template.New("page").Parse(pageHTML))

// HTML is the page. Data reaches it as JSON in a script element that no browser runs; style and script are the program's own.
func (p Page) HTML() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Page   Page
		Style  template.CSS
		Script template.JS
	}{p, template.CSS(pageCSS), template.JS(chartJS + pageJS)})
	if err != nil {
		return nil, fmt.Errorf("make the timeline: %w", err)
	}
	return b.Bytes(), nil
}
