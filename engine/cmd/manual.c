/* The program's manual page and completion, from its tables. */
#include "engine/cmd/manual.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "engine/cmd/command.h"

/* build.sh gathers the text, and knows that this file depends on it. */
__asm__(".section .rodata\n"
        "licences_begin: .incbin \"build/licences\"\n"
        "licences_end: .text\n");
extern const char licences_begin[], licences_end[];

void notices_print(FILE *out) { fwrite(licences_begin, 1, (size_t)(licences_end - licences_begin), out); }

/* --- the page --------------------------------------------------------------------------------- */

/* Prints a line of text so that man(1) takes nothing in it for a request or an escape. */
static void line_print(FILE *out, const char *text, size_t bytes)
{
    if (bytes > 0 && (*text == '.' || *text == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < bytes; i++) {
        switch (text[i]) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '`':
        case '\'': fputs(text[i] == '`' ? "\\(ga" : "\\(aq", out); break;
        case '^':
        case '~': fputs(text[i] == '^' ? "\\(ha" : "\\(ti", out); break;
        default: fputc(text[i], out);
        }
    }
    fputc('\n', out);
}

static void text_print(FILE *out, const char *text) { line_print(out, text, strlen(text)); }

/* Whether a line must not be refilled: a command, or columns. */
static bool is_kept(const char *line, size_t bytes)
{
    if (bytes == 0) return false;
    if (*line == ' ' || strncmp(line, "heterps-run ", strlen("heterps-run ")) == 0) return true;
    for (size_t i = 0; i + 1 < bytes; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') return true;
    return false;
}

/* Prints paragraphs; running text may be refilled. */
static void paragraphs_print(FILE *out, const char *text)
{
    bool keeps = false;
    fputs(".PP\n", out);
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        if (bytes == 0) {
            fputs(keeps ? ".fi\n.PP\n" : ".PP\n", out);
            keeps = false;
        } else {
            if (is_kept(text, bytes) != keeps) fputs(keeps ? ".fi\n" : ".nf\n", out), keeps = !keeps;
            line_print(out, text, bytes);
        }
        text += bytes + (text[bytes] == '\n');
    }
    if (keeps) fputs(".fi\n", out);
}

static void flags_page(FILE *out, const struct flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fputs(".TP\n.B ", out);
        if (flags[i].value == NULL)
            text_print(out, flags[i].name);
        else {
            const char *dashes = flags[i].name[1] == '-' ? "\\-" : "";
            fprintf(out, "\\-%s%s \\fI", dashes, flags[i].name + strspn(flags[i].name, "-"));
            fprintf(out, "%s\\fR\n", flags[i].value);
        }
        text_print(out, flags[i].meaning);
        if (flags[i].is_required) text_print(out, "(required)");
    }
}

static void verb_page(FILE *out, const struct command *c)
{
    fprintf(out, ".SS \"%s%s%s%s\"\n", c->name, *c->positionals ? " " : "", c->positionals,
            c->takes_rest ? " -- COMMAND" : "");
    fprintf(out, "%c", toupper((unsigned char)*c->summary));
    text_print(out, c->summary + 1);
    flags_page(out, c->flags, c->flag_count);
    if (c->help) paragraphs_print(out, c->help + strspn(c->help, "\n"));
}

void manual_print(FILE *out)
{
    const char *title;
    const struct command *c;
    size_t count;
    fprintf(out,
            ".TH HETERPS\\-RUN 1 \"\" \"heterps\\-run %s\" \"User Commands\"\n"
            ".SH NAME\nheterps\\-run \\- trains and serves sparse deep models\n"
            ".SH SYNOPSIS\n"
            ".B heterps\\-run compile\n.I model.cfg\n.B \\-o\n.I graph.bin\n.br\n"
            ".B heterps\\-run\n.I graph.bin\n.B \\-\\-data\n.I train.tsv\n"
            "[\\fB\\-\\-eval\\fR \\fItest.tsv\\fR] [\\fB\\-\\-out\\fR \\fIDIR\\fR]\n.br\n"
            ".B heterps\\-run predict\n.I graph.bin\n.B \\-\\-model\n.I DIR\n.B \\-\\-data\n.I new.tsv\n.br\n"
            ".B heterps\\-run serve\n.I graph.bin\n.B \\-\\-model\n.I DIR\n.B \\-\\-listen\n.I ADDR:PORT\n.br\n"
            ".B heterps\\-run help\n[\\fIWORD\\fR]\n",
            HETERPS_VERSION);
    fputs(".SH DESCRIPTION\n", out);
    paragraphs_print(out, help_of_words);
    for (size_t i = 0; (c = command_at(i, &title)) != NULL; i++) {
        if (title) {
            fputs(".SH \"", out);
            for (const char *p = title; *p; p++) fputc(toupper((unsigned char)*p), out);
            fputs("\"\n", out);
        }
        verb_page(out, c);
    }
    fputs(".SH \"FLAGS OF EVERY VERB\"\n", out);
    const struct flag *flags = command_global_flags(&count);
    flags_page(out, flags, count);
    fputs(".SH \"EXIT STATUS\"\n", out);
    paragraphs_print(out, help_of_exits);
    fputs(".SH ENVIRONMENT\n"
          ".TP\n.B HETERPS_GPU\nWhat \\fB\\-\\-gpu\\fR is where it is not given: off, auto or on.\n"
          ".TP\n.B XDG_CACHE_HOME\nWhere profiles are kept, in heterps; default: ~/.cache.\n"
          ".SH \"SEE ALSO\"\n"
          "\\fBheterps\\-run help settings\\fR lists every setting of a model, "
          "\\fBheterps\\-run help notices\\fR the licences of the\n"
          "libraries in the program.\n",
          out);
}

/* --- completion ------------------------------------------------------------------------------- */

static void flag_words(FILE *out, const struct flag *flags, size_t count, bool only_valued)
{
    for (size_t i = 0; i < count; i++)
        if (!only_valued || flags[i].type != FLAG_SWITCH) fprintf(out, "%s ", flags[i].name);
}

void completion_print(FILE *out)
{
    const char *title;
    const struct command *c;
    size_t count;
    const struct flag *flags = command_global_flags(&count);
    fputs("# Completion of heterps-run in bash, made by `heterps-run help bash`.\n"
          "_heterps_run() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
          "verb=train verbs flags valued i\n"
          "    verbs='help ",
          out);
    for (size_t i = 0; (c = command_at(i, &title)) != NULL; i++) fprintf(out, "%s ", c->name);
    fputs("'\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        # behind -- is a command of its own\n"
          "        if [ \"$i\" = 1 ] || [ \"${COMP_WORDS[i-1]}\" = -- ]; then\n"
          "            verb=train\n"
          "            case \" $verbs \" in *\" ${COMP_WORDS[i]} \"*) verb=${COMP_WORDS[i]} ;; esac\n"
          "        fi\n"
          "    done\n"
          "    case $verb in\n"
          "    help) COMPREPLY=($(compgen -W \"$verbs settings cluster layers notices\" -- \"$word\")); return ;;\n",
          out);
    for (size_t i = 0; (c = command_at(i, &title)) != NULL; i++) {
        fprintf(out, "    %s) flags='", c->name);
        flag_words(out, c->flags, c->flag_count, false);
        fputs("' valued='", out);
        flag_words(out, c->flags, c->flag_count, true);
        fputs("' ;;\n", out);
    }
    fputs("    esac\n    flags=\"$flags ", out);
    flag_words(out, flags, count, false);
    fputs("\" valued=\"$valued ", out);
    flag_words(out, flags, count, true);
    fputs("\"\n"
          "    COMPREPLY=()\n"
          "    case \" $valued \" in *\" $before \"*) # its value\n"
          "        case $before in\n"
          "        --log) COMPREPLY=($(compgen -W 'text json' -- \"$word\")) ;;\n"
          "        --gpu) COMPREPLY=($(compgen -W 'off auto on' -- \"$word\")) ;;\n"
          "        --blas) COMPREPLY=($(compgen -W 'auto off' -- \"$word\")) ;;\n"
          "        *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
          "        esac\n"
          "        return ;;\n"
          "    esac\n"
          "    case $word in -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")); return ;; esac\n"
          "    if [ \"$COMP_CWORD\" = 1 ] || [ \"$before\" = -- ]; "
          "then COMPREPLY=($(compgen -W \"$verbs\" -- \"$word\")); fi\n"
          "    COMPREPLY+=($(compgen -f -- \"$word\"))\n"
          "}\n"
          "complete -o filenames -F _heterps_run heterps-run\n",
          out);
}
