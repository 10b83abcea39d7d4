/* SPDX-License-Identifier: Apache-2.0 */
/* The moves of the parser: which are possible, what they do, and what each costs, as in spaCy's
 * BiluoPushDown. */
#include "ml/ner_model.h"

bool crti_ner_is_valid(const crti_ner_state_t *s, crti_ner_move_t move)
{
    const crti_ner_tag_t *word = &s->tags[s->at];
    bool open = s->start >= 0;
    bool may_go_on = s->at + 1 < s->length && !word[1].starts_sentence;

    switch ((crt_ner_action_t)move.action) {
    case CRT_NER_BEGIN: return !open && may_go_on && !word->is_space;
    case CRT_NER_IN: return open && move.label == s->label && may_go_on;
    case CRT_NER_LAST: return open && move.label == s->label;
    case CRT_NER_UNIT: return !open && move.label != CRTI_NER_NO_LABEL && !word->is_space;
    case CRT_NER_OUT: return !open;
    case CRT_NER_MISSING: break;
    }
    return false;
}

/* The open entity is none of the truth, whatever comes. */
static bool is_sunk(const crti_ner_state_t *s)
{
    const crti_ner_tag_t *gold = s->start < 0 ? NULL : &s->tags[s->start];

    return gold && ((gold->action != CRT_NER_BEGIN && gold->action != CRT_NER_UNIT) ||
                    gold->label != s->label);
}

static int cost_in(const crti_ner_state_t *s, const crti_ner_tag_t *gold,
                   crt_ner_action_t next)
{
    bool next_is_out = next == CRT_NER_OUT || next == CRT_NER_MISSING;

    switch ((crt_ner_action_t)gold->action) {
    case CRT_NER_LAST: return !(is_sunk(s) && next_is_out);
    case CRT_NER_OUT: return !next_is_out;
    case CRT_NER_UNIT: return next != CRT_NER_OUT;
    case CRT_NER_BEGIN:
    case CRT_NER_IN:
    case CRT_NER_MISSING: break;
    }
    return 0;
}

/* How many entities of the truth can't be found any more, or are found wrongly, because of this
 * move. */
int crti_ner_cost(const crti_ner_state_t *s, crti_ner_move_t move)
{
    const crti_ner_tag_t *gold = &s->tags[s->at];
    crt_ner_action_t next =
        s->at + 1 < s->length ? (crt_ner_action_t)gold[1].action : CRT_NER_OUT;

    if (!crti_ner_is_valid(s, move))
        return CRTI_NER_COST_INVALID;
    if (gold->action == CRT_NER_MISSING)
        return 0;
    switch ((crt_ner_action_t)move.action) {
    case CRT_NER_BEGIN:
    case CRT_NER_UNIT: return gold->action != move.action || gold->label != move.label;
    case CRT_NER_IN: return cost_in(s, gold, next);
    case CRT_NER_LAST: return gold->action == CRT_NER_IN && !is_sunk(s);
    case CRT_NER_OUT:
        return gold->action == CRT_NER_BEGIN || gold->action == CRT_NER_UNIT;
    case CRT_NER_MISSING: break;
    }
    return CRTI_NER_COST_INVALID;
}

void crti_ner_do(crti_ner_state_t *s, crti_ner_move_t move)
{
    if (move.action == CRT_NER_BEGIN) {
        s->start = (int32_t)s->at;
        s->label = move.label;
    } else if (move.action == CRT_NER_LAST) {
        s->start = -1;
    }
    s->at++;
}

/* The word itself; of an open entity the first word and the one before this, or its first five. */
void crti_ner_context(const crti_ner_state_t *s, int count, int32_t *ids)
{
    int32_t first = (int32_t)s->first, at = (int32_t)s->at;

    ids[0] = first + at;
    for (int k = 1; k < count; k++)
        ids[k] = -1;
    if (s->start < 0)
        return;
    if (count == 3) {
        ids[1] = first + s->start;
        ids[2] = ids[0] - 1;
        return;
    }
    for (int k = 1; k < count && s->start + k - 1 < at; k++)
        ids[k] = first + s->start + k - 1;
}

bool crti_ner_oracle(const crt_ner_model_t *model, const crti_ner_state_t *state,
                     crti_ner_move_t *move_out)
{
    for (size_t i = 0; i < model->move_count; i++)
        if (crti_ner_cost(state, model->moves[i]) <= 0) {
            *move_out = model->moves[i];
            return true;
        }
    return false;
}
