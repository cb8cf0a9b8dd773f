/* What llama.cpp calls of llguidance's C interface (1.7), whose functions its Python package's
 * library exports, too. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LlgMatcher LlgMatcher;
typedef struct LlgTokenizer LlgTokenizer;

/* The limits at its end are only ever filled in by the library: room enough for them. */
typedef struct {
  const LlgTokenizer *tokenizer;
  uint32_t log_buffer_level, log_stderr_level;
  bool ff_tokens_ok, backtrack_ok;
  uint64_t limits[32];
} LlgConstraintInit;

typedef size_t (*LlgTokenizeFn)(const void *user_data, const uint8_t *bytes, size_t bytes_len,
                                uint32_t *ids, size_t ids_len);

typedef struct {
  uint32_t vocab_size, tok_eos;
  const uint32_t *token_lens;
  const uint8_t *token_bytes;
  const char *tokenizer_json;
  bool tokenize_assumes_string;
  LlgTokenizeFn tokenize_fn;
  bool use_approximate_greedy_tokenize_fn;
  const void *tokenize_user_data;
  const char *const *slices;
} LlgTokenizerInit;

LlgTokenizer *llg_new_tokenizer(const LlgTokenizerInit *init, char *error, size_t error_len);
LlgTokenizer *llg_clone_tokenizer(const LlgTokenizer *tokenizer);
void llg_free_tokenizer(LlgTokenizer *tokenizer);

void llg_constraint_init_set_defaults(LlgConstraintInit *init, const LlgTokenizer *tokenizer);

LlgMatcher *llg_new_matcher(const LlgConstraintInit *init, const char *kind, const char *grammar);
LlgMatcher *llg_clone_matcher(const LlgMatcher *matcher);
void llg_free_matcher(LlgMatcher *matcher);
const char *llg_matcher_get_error(LlgMatcher *matcher);
int32_t llg_matcher_compute_mask(LlgMatcher *matcher);
const uint32_t *llg_matcher_get_mask(LlgMatcher *matcher);
size_t llg_matcher_get_mask_byte_size(LlgMatcher *matcher);
int32_t llg_matcher_consume_token(LlgMatcher *matcher, uint32_t id);
int32_t llg_matcher_reset(LlgMatcher *matcher);

#ifdef __cplusplus
}
#endif
