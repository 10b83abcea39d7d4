/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <string.h>

void print_header(bool is_plain)
{
    static const char dashes[] = "--------";

    if (!is_plain)
        printf("%8s  ", "T");
    printf("%3s  %6s  ", "E", "#");
    if (!is_plain)
        printf("%6s  ", "W");
    printf("%8s  %6s  %6s  %6s  %6s\n", "LOSS NER", "ENTS_F", "ENTS_P", "ENTS_R",
           "SCORE");
    if (!is_plain)
        printf("%s  ", dashes);
    printf("%.3s  %.6s  ", dashes, dashes);
    if (!is_plain)
        printf("%.6s  ", dashes);
    printf("%s  %.6s  %.6s  %.6s  %.6s\n", dashes, dashes, dashes, dashes, dashes);
    fflush(stdout);
}

void print_row(bool is_plain, const row_t *r)
{
    unsigned long seconds = (unsigned long)r->seconds;
    char time[32];

    snprintf(time, sizeof(time), "%lu:%02lu:%02lu", seconds / 3600, seconds / 60 % 60,
             seconds % 60);
    if (!is_plain)
        printf("%8s  ", time);
    printf("%3llu  %6llu  ", (unsigned long long)r->epoch, (unsigned long long)r->step);
    if (!is_plain)
        printf("%6llu  ", (unsigned long long)r->words);
    printf("%8.2f  %6.2f  %6.2f  %6.2f  %6.2f\n", r->loss, 100 * crt_ner_f(&r->count),
           100 * crt_ner_precision(&r->count), 100 * crt_ner_recall(&r->count), r->score);
    fflush(stdout);
}

void write_csv_header(FILE *csv)
{
    fprintf(csv, "seconds,epoch,step,words,loss,f,precision,recall,score,"
                 "gradients_used,gradients_dropped,words_per_s\n");
    fflush(csv);
}

void write_csv_row(FILE *csv, const row_t *r)
{
    fprintf(csv, "%.3f,%llu,%llu,%llu,%.4f,%.6f,%.6f,%.6f,%.6f,%llu,%llu,%.1f\n",
            r->seconds, (unsigned long long)r->epoch, (unsigned long long)r->step,
            (unsigned long long)r->words, r->loss, crt_ner_f(&r->count),
            crt_ner_precision(&r->count), crt_ner_recall(&r->count), r->score,
            (unsigned long long)r->accepted, (unsigned long long)r->dropped,
            r->words_per_s);
    fflush(csv);
}

void print_labels(const char *const *labels, const crt_ner_count_t *counts, size_t count)
{
    printf("%-16s  %6s  %6s  %6s  %8s\n", "", "P", "R", "F", "entities");
    for (size_t i = 0; i < count; i++) {
        if (counts[i].gold == 0 && counts[i].predicted == 0)
            continue;
        printf("%-16s  %6.2f  %6.2f  %6.2f  %8zu\n", *labels[i] ? labels[i] : "all",
               100 * crt_ner_precision(&counts[i]), 100 * crt_ner_recall(&counts[i]),
               100 * crt_ner_f(&counts[i]), counts[i].gold);
    }
    fflush(stdout);
}
