/* The pages as a browser gets them: facts of the model, a form of its columns and its answer, figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/serve/served_test.h"

#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"

static void page__the_model__is_told(void **state)
{
    (void)state;
    const char *page = served_ask(&server, "GET /", "", "");
    served_check(page, 200, "Content-Security-Policy: default-src 'none'; ", NULL);
    served_check(page, 200, "Cache-Control: no-store\r\n", NULL);
    served_has(page, "<title>line</title>");
    served_has(page, "<h1>line</h1>");
    served_has(page, "line.bin, model in /tmp/test_serve_");
    served_has(page, "<dt>Version</dt><dd><strong>20</strong>the step of training that it was saved at</dd>");
    served_has(page, "<dt>Columns</dt><dd><strong>3</strong>csv</dd>");
    served_has(page, "<dt>Rows</dt><dd><strong>2</strong>in 1 table</dd>");
    served_has(page, "<dt>Parameters</dt><dd><strong>5</strong>in 4 layers</dd>"); /* four weights and a bias */
    served_has(page, "<label>a<input type=\"text\" name=\"c0\" inputmode=\"decimal\" autocomplete=\"off\" value=\"\">");
    served_has(page, "<label>b<input type=\"text\" name=\"c1\" inputmode=\"decimal\" autocomplete=\"off\" value=\"\">");
    served_has(page, "<label>job<input type=\"text\" name=\"c2\" autocomplete=\"off\" value=\"\">");
    served_has(page, "<iframe src=\"/figures/line\"");
    if (strstr(page, "<h2 id=\"answer\">")) fail_msg("nothing was asked");
    if (strstr(page, "aria-label=\"Models\"")) fail_msg("there is one model");
    if (strstr(page, "further columns")) fail_msg("there are three columns");
}

static void page__two_models__have_links_to_each_other(void **state)
{
    (void)state;
    const struct serve_model models[] = {{"one", served_graph, served_directory},
                                         {"two", served_graph, served_directory}};
    struct serve_options o = served_options();
    o.models = models;
    o.model_count = 2;
    struct running both = served_start(&o);
    served_has(served_ask(&both, "GET /page/two", "", ""),
               "<a href=\"/page/one\">one</a><a href=\"/page/two\" aria-current=\"page\">two</a></nav>");
    served_has(served_ask(&both, "GET /", "", ""), "<a href=\"/page/one\" aria-current=\"page\">one</a>");
    assert_int_equal(served_end(&both), 0);
}

static void page__a_form__is_answered_and_keeps_what_was_sent(void **state)
{
    (void)state;
    const char *page = served_ask(&server, "POST /page/line", FORM, "c0=1&c1=2&c2=%3Ccook%3E");
    served_check(page, 200, NULL, NULL);
    served_has(page, "<p class=\"note\">bce; version 20</p>\n<p class=\"answer\">0.880797078\n</p>");
    served_has(page, "name=\"c0\" inputmode=\"decimal\" autocomplete=\"off\" value=\"1\">");
    served_has(page, "name=\"c1\" inputmode=\"decimal\" autocomplete=\"off\" value=\"2\">");
    served_has(page, "name=\"c2\" autocomplete=\"off\" value=\"&lt;cook&gt;\">");
    if (strstr(page, "class=\"alarm\"")) fail_msg("no line was malformed");
    page = served_ask(&server, "POST /page/line", FORM, "lines=a%2Cb%2Cjob%0A0%2C0%2C%0A1%2C%3Ci%3E%2C%0A1%2C2%2C%0A");
    served_has(page, "<p class=\"answer\">0.0474258732\nnan\n0.880797078\n</p>");
    served_has(page, "<p class=\"alarm\">Line 3: column 2 (b): expected a number, found &quot;&lt;i&gt;&quot;</p>");
    served_has(page, "spellcheck=\"false\">a,b,job\n0,0,\n1,&lt;i&gt;,\n1,2,\n</textarea>");
}

static void page__no_form__is_refused(void **state)
{
    (void)state;
    served_check(served_ask(&server, "POST /page/line", FORM, "none"), 400, NULL,
                 "expected the fields of this page's form\n");
    served_check(served_ask(&server, "POST /page/line", FORM, "c2=1%0A2"), 400, NULL, NULL);
    served_has(served_ask(&server, "POST /page/line", FORM, "c2=1%0A2"),
               "column job: expected a value without line ends");
}

static void page_figures__what_was_asked__is_counted(void **state)
{
    (void)state;
    const struct serve_options o = served_options();
    struct running fresh = served_start(&o);
    const char *page = served_ask(&fresh, "GET /figures", "", "");
    served_has(page, "<meta http-equiv=\"refresh\" content=\"2\">");
    served_has(page, "<dt>Requests answered</dt><dd><strong>0</strong>0 wait</dd>");
    served_has(page, "<dt>Half are answered</dt><dd><strong>none yet</strong>");
    (void)served_ask(&fresh, "POST /predict", "", "a,b,job\n0,0,\n1,2,\n1,z,\n");
    (void)served_ask(&fresh, "POST /predict", "", "a,b,job\n0,0,\n");
    page = served_ask(&fresh, "GET /figures/line", "", "");
    served_check(page, 200, "Content-Type: text/html; charset=utf-8\r\n", NULL);
    served_has(page, "<dt>Requests answered</dt><dd><strong>2</strong>0 wait</dd>");
    served_has(page, "<dt>Examples computed</dt><dd><strong>4</strong>in 2 micro-batches; 1 malformed line</dd>");
    served_has(page, "<dt>Half are answered</dt><dd><strong>≤ ");
    served_has(page, "<dt>99 of 100</dt><dd><strong>≤ ");
    served_has(page, "<dt>Connections</dt><dd><strong>1</strong>of 16384</dd>");
    served_has(page, "<dt>Memory</dt><dd><strong>");
    served_has(page, "</strong>0 B of requests and answers</dd>");
    served_has(page, "<body class=\"frame\">\n<main>\n<dl class=\"facts\">\n<div><dt>");
    served_has(page, "</div>\n</dl>\n</main>\n</body>\n</html>\n");
    assert_int_equal(served_end(&fresh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page__the_model__is_told),
        cmocka_unit_test(page__two_models__have_links_to_each_other),
        cmocka_unit_test(page__a_form__is_answered_and_keeps_what_was_sent),
        cmocka_unit_test(page__no_form__is_refused),
        cmocka_unit_test(page_figures__what_was_asked__is_counted),
    };
    return cmocka_run_group_tests(tests, server_open, server_close) ? 1 : 0;
}
